package ingest

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a word, a quoted name, a string or a single character of a statement.
type token struct {
	kind tokenKind
	text string // without quotes and escapes
}

type tokenKind uint8

const (
	tokenWord   tokenKind = iota // a keyword or a bare name
	tokenName                    // "quoted": a name and never a keyword
	tokenString                  // 'quoted'
	tokenOther                   // one character
)

// isName reports whether the token can be the name of something.
func (t token) isName() bool { return t.kind == tokenWord || t.kind == tokenName }

// is reports whether the token is that character.
func (t token) is(text string) bool { return t.kind == tokenOther && t.text == text }

// startsWith reports whether a statement begins with the keywords, in any case.
func startsWith(statement []token, keywords ...string) bool {
	if len(statement) < len(keywords) {
		return false
	}
	for i, keyword := range keywords {
		if statement[i].kind != tokenWord || !strings.EqualFold(statement[i].text, keyword) {
			return false
		}
	}
	return true
}

// splitStatements splits a query at semicolons. Empty statements are left out, as InfluxDB does.
func splitStatements(query string) ([][]token, error) {
	var statements [][]token
	var statement []token
	for query = skipBlanks(query); query != ""; query = skipBlanks(query) {
		t, rest, err := nextToken(query)
		if err != nil {
			return nil, err
		}
		query = rest
		if !t.is(";") {
			statement = append(statement, t)
			continue
		}
		if len(statement) > 0 {
			statements, statement = append(statements, statement), nil
		}
	}
	if len(statement) > 0 {
		statements = append(statements, statement)
	}
	if len(statements) > statementsMax {
		return nil, fmt.Errorf("%d statements, at most %d are allowed", len(statements), statementsMax)
	}
	return statements, nil
}

func skipBlanks(query string) string { return strings.TrimLeftFunc(query, unicode.IsSpace) }

// nextToken splits the first token off a query that starts with one.
func nextToken(query string) (t token, rest string, err error) {
	first, size := utf8.DecodeRuneInString(query)
	switch {
	case first == '"':
		return quotedToken(tokenName, query)
	case first == '\'':
		return quotedToken(tokenString, query)
	case isWordRune(first):
		end := strings.IndexFunc(query, func(r rune) bool { return !isWordRune(r) })
		if end < 0 {
			end = len(query)
		}
		return token{tokenWord, query[:end]}, query[end:], nil
	default:
		return token{tokenOther, query[:size]}, query[size:], nil
	}
}

func isWordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// quotedToken reads a token in quotes. A backslash escapes the quote, itself, and n for a line break.
func quotedToken(kind tokenKind, query string) (t token, rest string, err error) {
	var text strings.Builder
	for i := 1; i < len(query); i++ {
		switch query[i] {
		case query[0]:
			return token{kind, text.String()}, query[i+1:], nil
		case '\\':
			i++
			if i == len(query) {
				return token{}, "", errUnterminated
			}
			if query[i] == 'n' {
				text.WriteByte('\n')
				continue
			}
			text.WriteByte(query[i])
		default:
			text.WriteByte(query[i])
		}
	}
	return token{}, "", errUnterminated
}

var errUnterminated = errors.New("a quote is never closed")
