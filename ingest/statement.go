package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"lineweir/shard"
)

const (
	// queryBodyBytesMax bounds the form of a query.
	queryBodyBytesMax = 1 << 20
	// statementsMax bounds the statements of one query.
	statementsMax = 1000
)

// statementResult is the answer to one statement, as InfluxDB 1 forms it. An error stands in here, inside of a 200.
type statementResult struct {
	ID       int                `json:"statement_id"`
	Series   []statementSeries  `json:"series,omitempty"`
	Messages []statementMessage `json:"messages,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// statementSeries is a table.
type statementSeries struct {
	Name    string     `json:"name"`
	Columns []string   `json:"columns"`
	Values  [][]string `json:"values,omitempty"`
}

// statementMessage is a remark beside a result.
type statementMessage struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// nameSeries is the table of names that SHOW statements answer.
func nameSeries(name string, names []string) []statementSeries {
	series := statementSeries{Name: name, Columns: []string{"name"}}
	for _, n := range names {
		series.Values = append(series.Values, []string{n})
	}
	return []statementSeries{series}
}

// query answers the statements of q, one after the other. After one that failed the others are not executed.
func (h *Handler) query(w http.ResponseWriter, r *http.Request) (reply, error) {
	r.Body = http.MaxBytesReader(w, r.Body, queryBodyBytesMax)
	// FormValue reads URL and body, in whichever form the body is.
	text, database := r.FormValue("q"), r.FormValue("db")
	if text == "" {
		return reply{}, badRequest(`missing required parameter "q"`)
	}
	statements, err := splitStatements(text)
	if err != nil {
		return reply{}, badRequest("error parsing query: %v", err)
	}
	body := struct {
		Results []statementResult `json:"results"`
	}{Results: []statementResult{}}
	failed := false
	for id, statement := range statements {
		result := statementResult{Error: "not executed"}
		if !failed {
			if result, err = h.execute(r.Context(), statement, database); err != nil {
				return reply{}, err
			}
			result.remark(r.Method, statement)
		}
		failed = failed || result.Error != ""
		result.ID = id
		body.Results = append(body.Results, result)
	}
	return jsonReply(http.StatusOK, body)
}

// remark warns as InfluxDB does when a GET changes something.
func (s *statementResult) remark(method string, statement []token) {
	if method == http.MethodGet && startsWith(statement, "CREATE") && s.Error == "" {
		s.Messages = []statementMessage{{Level: "warning", Text: "deprecated use of 'CREATE DATABASE' in a read only " +
			"context, please use a POST request instead"}}
	}
}

// execute runs one statement. Its error is one of the whole request; what is wrong with the statement is in the result.
func (h *Handler) execute(ctx context.Context, statement []token, database string) (statementResult, error) {
	switch {
	case startsWith(statement, "CREATE", "DATABASE"):
		return h.createDatabase(ctx, statement[2:])
	case startsWith(statement, "SHOW", "DATABASES") && len(statement) == 2:
		return statementResult{Series: nameSeries("databases", h.engine.Databases())}, nil
	case startsWith(statement, "SHOW", "MEASUREMENTS"):
		return h.showMeasurements(statement[2:], database)
	case startsWith(statement, "SELECT"):
		const reason = "SELECT is not supported; read points with GET "
		return statementResult{Error: reason + scanURL(statement, database)}, nil
	default:
		return statementResult{Error: "not supported: " + statementText(statement) +
			"; there are CREATE DATABASE, SHOW DATABASES and SHOW MEASUREMENTS"}, nil
	}
}

func (h *Handler) createDatabase(ctx context.Context, rest []token) (statementResult, error) {
	if len(rest) != 1 || !rest[0].isName() {
		return statementResult{Error: `expected CREATE DATABASE "name" and nothing behind it`}, nil
	}
	name, err := databaseName(rest[0].text, "")
	if err != nil {
		return statementResult{Error: err.Error()}, nil
	}
	if err = h.engine.CreateDatabase(ctx, name); err != nil {
		return statementResult{}, fmt.Errorf("create database %s: %w", quote(name), err)
	}
	return statementResult{}, nil
}

func (h *Handler) showMeasurements(rest []token, database string) (statementResult, error) {
	if startsWith(rest, "ON") && len(rest) == 2 && rest[1].isName() {
		database, rest = rest[1].text, nil
	}
	if len(rest) > 0 {
		return statementResult{Error: "not supported: SHOW MEASUREMENTS " + statementText(rest)}, nil
	}
	if database == "" {
		return statementResult{Error: "database name required"}, nil
	}
	name, err := databaseName(database, "")
	if err != nil {
		return statementResult{Error: err.Error()}, nil
	}
	measurements, err := h.engine.Measurements(name)
	switch {
	case errors.Is(err, shard.ErrDatabaseNotFound):
		return statementResult{Error: "database not found: " + sanitize(name, quoteBytesMax)}, nil
	case err != nil:
		return statementResult{}, fmt.Errorf("list the measurements of database %s: %w", quote(name), err)
	case len(measurements) == 0:
		return statementResult{}, nil
	}
	return statementResult{Series: nameSeries("measurements", measurements)}, nil
}

// scanURL is where the points are that a SELECT asks for.
func scanURL(statement []token, database string) string {
	measurement := "MEASUREMENT"
	for i := range statement {
		if !startsWith(statement[i:], "FROM") {
			continue
		}
		path := pathNames(statement[i+1:])
		if len(path) == 3 { // "db"."rp"."measurement"
			database = path[0]
		}
		if len(path) > 0 {
			measurement = path[len(path)-1]
		}
		break
	}
	if database == "" {
		database = "DATABASE"
	}
	return "/api/scan?db=" + url.QueryEscape(database) + "&measurement=" + url.QueryEscape(measurement)
}

// pathNames returns the names at the start of the tokens that points join. A name may be missing: "db".."measurement".
func pathNames(tokens []token) []string {
	names := []string{""}
	for _, t := range tokens {
		switch {
		case t.is("."):
			names = append(names, "")
		case t.isName() && names[len(names)-1] == "":
			names[len(names)-1] = t.text
		default:
			return trimEmpty(names)
		}
	}
	return trimEmpty(names)
}

func trimEmpty(names []string) []string {
	if names[len(names)-1] == "" {
		return nil
	}
	return names
}

// statementText shows a statement in an error.
func statementText(statement []token) string {
	var words []string
	for _, t := range statement {
		words = append(words, t.text)
	}
	return sanitize(strings.Join(words, " "), quoteBytesMax)
}
