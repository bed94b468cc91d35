package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/influxdata/influxql"

	"lineweir/internal/auth"
	"lineweir/shard"
)

const (
	// queryTextBytesMax bounds the statements of a query as text, and queryParenthesesMax how deep they may nest: the
	// parser calls itself for each parenthesis, and nothing can catch a stack that overflows.
	queryTextBytesMax   = 64 << 10
	queryParenthesesMax = 1000
	// querySlashesMax bounds regular expressions, which stand between two: x{1000} takes a millisecond to compile.
	querySlashesMax = 1000
	// queryTermsMax bounds how often AND and OR may stand in the text, names of others included: conditions are
	// simplified, and shown in errors, in a time that grows with their square.
	queryTermsMax = 500
	// statementsMax bounds the statements of one query.
	statementsMax = 1000
	// queryAnswerBytesMax bounds what the statements of one query may list together.
	queryAnswerBytesMax = 8 << 20
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
	Name    string   `json:"name,omitempty"`
	Columns []string `json:"columns"`
	Values  [][]any  `json:"values,omitempty"`
}

// statementMessage is a remark beside a result.
type statementMessage struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// queryRun executes the statements of one query.
type queryRun struct {
	engine    *shard.Engine
	ctx       context.Context
	rights    *auth.Rights
	method    string
	database  string // for statements that name none
	bytesLeft int    // of queryAnswerBytesMax
	read      *shard.Read
	needBytes int64 // memory of what is listed
	tookBytes int64 // of the read, for that
}

// query answers the statements of q, one after the other. After one that failed the others are not executed.
func (h *Handler) query(w http.ResponseWriter, r *http.Request) (answer reply, err error) {
	memory := claim{budget: h.budget}
	defer memory.release()
	if err := h.readForm(w, r, &memory); err != nil {
		return reply{}, err
	}
	rights, err := h.rightsStill(r.Context())
	if err == nil {
		err = needStatements(rights, r)
	}
	if err != nil {
		return reply{}, err
	}
	text, database := r.Form.Get("q"), r.Form.Get("db")
	if text == "" {
		return reply{}, badRequest(`missing required parameter "q"`)
	}
	statements, err := parseStatements(text)
	if err != nil {
		return reply{}, err
	}
	run := &queryRun{
		engine: h.engine, ctx: r.Context(), rights: rights, method: r.Method, database: database,
		bytesLeft: queryAnswerBytesMax, read: h.engine.BeginRead(),
	}
	defer func() {
		if answer.release == nil {
			run.read.Release()
		}
	}()
	results, err := run.results(statements)
	if err != nil {
		return reply{}, err
	}
	answer, err = jsonReply(http.StatusOK, struct {
		Results []statementResult `json:"results"`
	}{results})
	if err != nil {
		return reply{}, err
	}
	run.keep(answer.body)
	answer.release = run.read.Release
	return answer, nil
}

// results executes the statements.
func (q *queryRun) results(statements influxql.Statements) ([]statementResult, error) {
	results := make([]statementResult, 0, len(statements))
	failed := false
	for id, statement := range statements {
		result := statementResult{Error: "not executed"}
		if !failed {
			var err error
			if result, err = q.result(statement); err != nil {
				return nil, err
			}
		}
		failed = failed || result.Error != ""
		result.ID = id
		results = append(results, result)
	}
	return results, nil
}

// parseStatements parses the text of a query. Its errors are *requestError.
func parseStatements(text string) (influxql.Statements, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	query, err := influxql.ParseQuery(text)
	if err != nil {
		return nil, badRequest("error parsing query: %s", sanitize(err.Error(), quoteBytesMax))
	}
	if len(query.Statements) > statementsMax {
		return nil, badRequest("error parsing query: %d statements, at most %d are allowed",
			len(query.Statements), statementsMax)
	}
	if err := checkDurations(text, query.Statements); err != nil {
		return nil, err
	}
	return query.Statements, nil
}

// checkText bounds what a text can cost, before it is parsed.
func checkText(text string) error {
	small := strings.ToLower(text)
	for _, bound := range []struct {
		what       string
		count, max int
	}{
		{"bytes", len(text), queryTextBytesMax},
		{"opening parentheses", strings.Count(text, "("), queryParenthesesMax},
		{"slashes", strings.Count(text, "/"), querySlashesMax},
		{"ANDs and ORs", strings.Count(small, "and") + strings.Count(small, "or"), queryTermsMax},
	} {
		if bound.count > bound.max {
			return badRequest("error parsing query: the text has %d %s, at most %d are allowed", bound.count, bound.what,
				bound.max)
		}
	}
	return nil
}

// result executes one statement. What is wrong with the statement stands in the result; an error is one of the whole
// request.
func (q *queryRun) result(statement influxql.Statement) (statementResult, error) {
	series, err := q.execute(statement)
	var refused *requestError
	if errors.As(err, &refused) {
		return statementResult{Error: auth.Redact(refused.message)}, nil
	}
	if err != nil {
		return statementResult{}, fmt.Errorf("execute %s: %w", quote(statement.String()), err)
	}
	result := statementResult{Series: series}
	if q.method == http.MethodGet && changes(statement) {
		result.Messages = []statementMessage{{Level: "warning", Text: fmt.Sprintf("deprecated use of '%s' in a read only "+
			"context, please use a POST request instead", auth.Redact(sanitize(statement.String(), quoteBytesMax)))}}
	}
	return result, nil
}

// changes tells whether a statement is one that changes something.
func changes(statement influxql.Statement) bool {
	switch statement.(type) {
	case *influxql.CreateDatabaseStatement, *influxql.DropDatabaseStatement, *influxql.DropMeasurementStatement,
		*influxql.CreateRetentionPolicyStatement, *influxql.AlterRetentionPolicyStatement,
		*influxql.DropRetentionPolicyStatement:
		return true
	default:
		return false
	}
}

// execute runs one statement. A *requestError says what is wrong with it.
func (q *queryRun) execute(statement influxql.Statement) ([]statementSeries, error) {
	switch s := statement.(type) {
	case *influxql.CreateDatabaseStatement:
		return nil, q.createDatabase(s)
	case *influxql.DropDatabaseStatement:
		return nil, q.dropDatabase(s)
	case *influxql.DropMeasurementStatement:
		return nil, q.dropMeasurement(s)
	case *influxql.CreateRetentionPolicyStatement:
		return nil, q.createPolicy(s)
	case *influxql.AlterRetentionPolicyStatement:
		return nil, q.alterPolicy(s)
	case *influxql.DropRetentionPolicyStatement:
		return nil, q.dropPolicy(s)
	case *influxql.SelectStatement:
		return nil, badRequest("SELECT is not supported; read points with GET %s", q.scanURL(s))
	default:
		return q.show(statement)
	}
}

// show runs one statement that changes nothing.
func (q *queryRun) show(statement influxql.Statement) ([]statementSeries, error) {
	switch s := statement.(type) {
	case *influxql.ShowDatabasesStatement:
		return q.showDatabases()
	case *influxql.ShowRetentionPoliciesStatement:
		return q.showPolicies(s)
	case *influxql.ShowMeasurementsStatement:
		return q.showMeasurements(s)
	case *influxql.ShowTagKeysStatement:
		return q.showTagKeys(s)
	case *influxql.ShowFieldKeysStatement:
		return q.showFieldKeys(s)
	case *influxql.ShowTagValuesStatement:
		return q.showTagValues(s)
	case *influxql.ShowSeriesStatement:
		return q.showSeries(s)
	default:
		return nil, badRequest("not supported: %s; there are CREATE DATABASE, DROP DATABASE, DROP MEASUREMENT, "+
			"CREATE, ALTER and DROP RETENTION POLICY, and SHOW DATABASES, RETENTION POLICIES, MEASUREMENTS, TAG KEYS, "+
			"TAG VALUES, FIELD KEYS and SERIES", sanitize(statement.String(), quoteBytesMax))
	}
}

// scanURL is where the points are that a SELECT asks for.
func (q *queryRun) scanURL(s *influxql.SelectStatement) string {
	database, measurement := q.database, "MEASUREMENT"
	if source, ok := s.Sources[0].(*influxql.Measurement); ok {
		if source.Database != "" {
			database = source.Database
		}
		if source.RetentionPolicy != "" && database != "" {
			database += "/" + source.RetentionPolicy
		}
		if source.Name != "" {
			measurement = source.Name
		}
	}
	if name, err := databaseName(database, ""); err == nil {
		database = name
	}
	if database == "" {
		database = "DATABASE"
	}
	return "/api/scan?db=" + url.QueryEscape(database) + "&measurement=" + url.QueryEscape(measurement)
}

// take counts what a statement lists, and the memory that it takes until it is sent.
func (q *queryRun) take(texts ...string) error {
	for _, text := range texts {
		q.bytesLeft -= len(text) + listedBytes
		q.needBytes += listedMemory(text)
	}
	if q.bytesLeft < 0 {
		return badRequest("the answer would be longer than %d bytes; narrow it with FROM, WHERE or LIMIT",
			queryAnswerBytesMax)
	}
	if q.needBytes <= q.tookBytes {
		return nil
	}
	grown := max(q.needBytes-q.tookBytes, listedStepBytes)
	if err := q.read.Grow(grown); err != nil {
		return err
	}
	q.tookBytes += grown
	return nil
}

// giveBack takes back what take has counted of a text that is not listed after all. The memory stays counted: it may be
// needed again.
func (q *queryRun) giveBack(text string) {
	q.bytesLeft += len(text) + listedBytes
	q.needBytes -= listedMemory(text)
}

// keep lets go of all memory but that of the answer.
func (q *queryRun) keep(body []byte) {
	if surplus := q.tookBytes - int64(cap(body)); surplus > 0 {
		q.read.Shrink(surplus)
	}
}

const (
	// listedBytes is about what a text takes in an answer beside itself.
	listedBytes = 8
	// listedTextBytes and listedTextCopies are what a text takes in memory, when it is found, sorted, put into a table and
	// encoded (TestWhatAListingTakes).
	listedTextBytes, listedTextCopies = 160, 6
	// listedStepBytes is how much memory is counted at once.
	listedStepBytes = 256 << 10
)

func listedMemory(text string) int64 { return listedTextBytes + listedTextCopies*int64(len(text)) }
