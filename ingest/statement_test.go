package ingest

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/auth"
	"lineweir/segment"
	"lineweir/shard"
)

// query runs statements and returns the results as they stand in the answer.
func query(t *testing.T, h *Handler, database, q string) string {
	t.Helper()
	form := url.Values{"q": {q}, "db": {database}}.Encode()
	answer := post(t, h, "/query", form, "Content-Type", "application/x-www-form-urlencoded")
	if answer.Code != http.StatusOK {
		t.Fatalf("%s: got %d %s", q, answer.Code, answer.Body)
	}
	body := strings.TrimSuffix(strings.TrimPrefix(answer.Body.String(), `{"results":[`), "]}\n")
	return body
}

// names is a result with one table of one column.
func names(id int, table, column string, values ...string) string {
	rows := make([]string, len(values))
	for i, value := range values {
		rows[i] = fmt.Sprintf("[%q]", value)
	}
	if table != "" {
		table = fmt.Sprintf(`"name":%q,`, table)
	}
	return fmt.Sprintf(`{"statement_id":%d,"series":[{%s"columns":[%q],"values":[%s]}]}`,
		id, table, column, strings.Join(rows, ","))
}

func failed(text string) string { return fmt.Sprintf(`{"statement_id":0,"error":%q}`, text) }

const done = `{"statement_id":0}`

// write sends lines to a database.
func write(t *testing.T, h *Handler, database, lines string) {
	t.Helper()
	if answer := post(t, h, "/write?db="+url.QueryEscape(database), lines); answer.Code != http.StatusNoContent {
		t.Fatalf("got %d %s", answer.Code, answer.Body)
	}
}

func TestStatements(t *testing.T) {
	policies := func(rows string) string {
		return `{"statement_id":0,"series":[{"columns":["name","duration","shardGroupDuration","replicaN","default"],` +
			`"values":[` + rows + `]}]}`
	}
	const autogen, week = `["autogen","0s","24h0m0s",1,true]`, `["week","0s","24h0m0s",1,false]`
	const readWith = "SELECT is not supported; read points with GET /api/scan?db="
	for _, tc := range []struct {
		name string
		q    string
		db   string
		want string
	}{
		{"create", `CREATE DATABASE "telegraf"`, "", done},
		{"create again, bare, in small letters", `create database d`, "", done},
		{"create, as an export has it", `CREATE DATABASE x WITH NAME autogen`, "", done},
		{"create with what means nothing here", `CREATE DATABASE x WITH REPLICATION 1 SHARD DURATION 1d NAME p`, "", done},
		{"create with a retention", `CREATE DATABASE x WITH DURATION 7d`, "", done},
		{"create with a short retention", `CREATE DATABASE x WITH DURATION 5m`, "",
			failed("retention policy duration must be at least 1h0m0s")},
		{"create again with another retention", `CREATE DATABASE d WITH DURATION 7d`, "",
			failed("retention policy conflicts with an existing policy")},
		{"create a bad name", `CREATE DATABASE "a/b/c"`, "", failed(`the database "a/b/c" has more than one slash`)},
		{"databases", `SHOW DATABASES`, "", names(0, "databases", "name", "d", "d/week")},
		{"measurements", `SHOW MEASUREMENTS`, "d", names(0, "measurements", "name", "a b", "m")},
		{"measurements of the default policy", `SHOW MEASUREMENTS`, "d/autogen", names(0, "measurements", "name", "a b", "m")},
		{"measurements on", `show measurements on "d/week"`, "", names(0, "measurements", "name", "w")},
		{"measurements without database", `SHOW MEASUREMENTS`, "", failed("database name required")},
		{"measurements of an unknown database", `SHOW MEASUREMENTS`, "no", failed("database not found: no")},
		{"measurements with a limit", `SHOW MEASUREMENTS LIMIT 1 OFFSET 1`, "d", names(0, "measurements", "name", "m")},
		{"measurements beyond the offset", `SHOW MEASUREMENTS LIMIT 1 OFFSET 7`, "d", done},
		{"one measurement", `SHOW MEASUREMENTS WITH MEASUREMENT = m`, "d", names(0, "measurements", "name", "m")},
		{"measurements by pattern", `SHOW MEASUREMENTS WITH MEASUREMENT =~ /a.*/`, "d", names(0, "measurements", "name", "a b")},
		{"measurements by tag", `SHOW MEASUREMENTS WHERE host = 'b'`, "d", names(0, "measurements", "name", "m")},
		{"measurements by a tag that none has", `SHOW MEASUREMENTS WHERE host = 'x'`, "d", done},
		{"tag keys", `SHOW TAG KEYS`, "d", names(0, "m", "tagKey", "host", "region")},
		{"tag keys from", `SHOW TAG KEYS FROM "a b", m LIMIT 1`, "d", names(0, "m", "tagKey", "host")},
		{"tag keys where", `SHOW TAG KEYS WHERE host = 'b'`, "d", names(0, "m", "tagKey", "host")},
		{"tag keys from a policy", `SHOW TAG KEYS FROM week.w`, "d", names(0, "w", "tagKey", "t")},
		{"tag keys from a database", `SHOW TAG KEYS FROM d.week.w`, "", names(0, "w", "tagKey", "t")},
		{"tag keys with SOFFSET", `SHOW TAG KEYS SLIMIT 1 SOFFSET 1`, "d", done},
		{"field keys", `SHOW FIELD KEYS FROM m`, "d", `{"statement_id":0,"series":[{"name":"m",` +
			`"columns":["fieldKey","fieldType"],"values":[["b","boolean"],["f","float"],["i","integer"],["s","string"],` +
			`["u","unsigned"],["v","integer"]]}]}`},
		{"field keys with a limit", `SHOW FIELD KEYS FROM m LIMIT 1 OFFSET 1`, "d", `{"statement_id":0,"series":[{"name":` +
			`"m","columns":["fieldKey","fieldType"],"values":[["f","float"]]}]}`},
		{"tag values", `SHOW TAG VALUES WITH KEY = host`, "d", `{"statement_id":0,"series":[{"name":"m",` +
			`"columns":["key","value"],"values":[["host","a"],["host","b"],["host","c,d"]]}]}`},
		{"tag values of several", `SHOW TAG VALUES FROM m WITH KEY IN (host, region) LIMIT 2 OFFSET 2`, "d",
			`{"statement_id":0,"series":[{"name":"m","columns":["key","value"],"values":[["host","c,d"],["region","eu"]]}]}`},
		{"tag values by pattern", `SHOW TAG VALUES WITH KEY =~ /reg/`, "d", `{"statement_id":0,"series":[{"name":"m",` +
			`"columns":["key","value"],"values":[["region","eu"]]}]}`},
		{"tag values of all others", `SHOW TAG VALUES WITH KEY != host`, "d", `{"statement_id":0,"series":[{"name":"m",` +
			`"columns":["key","value"],"values":[["region","eu"]]}]}`},
		{"tag values where", `SHOW TAG VALUES WITH KEY = host WHERE region = 'eu' AND host != 'c,d'`, "d",
			`{"statement_id":0,"series":[{"name":"m","columns":["key","value"],"values":[["host","a"]]}]}`},
		{"tag values at times", `SHOW TAG VALUES WITH KEY = host WHERE time > 1 AND time <= 2`, "d",
			`{"statement_id":0,"series":[{"name":"m","columns":["key","value"],"values":[["host","b"]]}]}`},
		{"tag values of a tag that none has", `SHOW TAG VALUES WITH KEY = x`, "d", done},
		{"series", `SHOW SERIES`, "d",
			names(0, "", "key", `a\ b`, `m,host=a,region=eu`, `m,host=b`, `m,host=c\,d,region=eu`)},
		{"series from", `SHOW SERIES FROM "a b"`, "d", names(0, "", "key", `a\ b`)},
		{"series with a limit", `SHOW SERIES LIMIT 1 OFFSET 2`, "d", names(0, "", "key", `m,host=b`)},
		{"series with a huge limit", `SHOW SERIES LIMIT 9223372036854775807 OFFSET 3`, "d",
			names(0, "", "key", `m,host=c\,d,region=eu`)},
		{"series beyond a huge offset", `SHOW SERIES LIMIT 9223372036854775807 OFFSET 9223372036854775807`, "d", done},
		{"series without a tag", `SHOW SERIES WHERE region = ''`, "d", names(0, "", "key", `a\ b`, `m,host=b`)},
		{"series by pattern", `SHOW SERIES WHERE host =~ /[ab]/ AND (region != 'eu' OR host = 'a')`, "d",
			names(0, "", "key", `m,host=a,region=eu`, `m,host=b`)},
		{"series by field", `SHOW SERIES WHERE v > 1`, "d",
			failed(`WHERE takes tags and time, and "v" is a field of measurement "a b"`)},
		{"series of nothing", `SHOW SERIES FROM none`, "d", done},
		{"policies", `SHOW RETENTION POLICIES ON d`, "", policies(autogen + "," + week)},
		{"policies of a policy", `SHOW RETENTION POLICIES`, "d/week", policies(`["autogen","0s","24h0m0s",1,true]`)},
		{"policies of an unknown database", `SHOW RETENTION POLICIES ON no`, "", failed("database not found: no")},
		{"create a policy", `CREATE RETENTION POLICY p ON d DURATION 1w REPLICATION 1 SHARD DURATION 1d`, "", done},
		{"create a known policy", `CREATE RETENTION POLICY week ON d DURATION INF REPLICATION 1`, "", done},
		{"change a policy by creating it", `CREATE RETENTION POLICY week ON d DURATION 1w REPLICATION 1`, "",
			failed("retention policy already exists")},
		{"make another policy the default", `CREATE RETENTION POLICY p ON d DURATION 1w REPLICATION 1 DEFAULT`, "",
			failed(`DEFAULT is not supported for policy "p": what is written without rp belongs to autogen, whose ` +
				`retention ALTER RETENTION POLICY autogen changes`)},
		{"create a policy of an unknown database", `CREATE RETENTION POLICY p ON no DURATION 1w REPLICATION 1`, "",
			failed("database not found: no")},
		{"alter a policy", `ALTER RETENTION POLICY autogen ON d DURATION 1w DEFAULT`, "", done},
		{"alter what means nothing here", `ALTER RETENTION POLICY week ON d REPLICATION 3`, "", done},
		{"alter an unknown policy", `ALTER RETENTION POLICY p ON d DURATION 1w`, "", failed("retention policy not found: p")},
		{"alter too short", `ALTER RETENTION POLICY week ON d DURATION 1m`, "",
			failed("retention policy duration must be at least 1h0m0s")},
		{"drop a measurement", `DROP MEASUREMENT "a b"`, "d", done},
		{"drop an unknown measurement", `DROP MEASUREMENT none`, "d", done},
		{"drop a measurement of no database", `DROP MEASUREMENT m`, "", failed("database name required")},
		{"drop a measurement of an unknown database", `DROP MEASUREMENT m`, "no", failed("database not found: no")},
		{"drop a database", `DROP DATABASE d`, "", done},
		{"drop an unknown database", `DROP DATABASE no`, "", done},
		{"two", `CREATE DATABASE x; SHOW MEASUREMENTS ON x;`, "", `{"statement_id":0},{"statement_id":1}`},
		{"after an error", `SHOW MEASUREMENTS ON no; SHOW DATABASES`, "d",
			failed("database not found: no") + `,{"statement_id":1,"error":"not executed"}`},
		{"select", `SELECT mean(v) FROM "a b" WHERE time > 0`, "d", failed(readWith + "d&measurement=a+b")},
		{"select from a path", `SELECT v FROM e.."m"`, "d", failed(readWith + "e&measurement=m")},
		{"select from a policy", `SELECT v FROM week.w`, "d", failed(readWith + "d%2Fweek&measurement=w")},
		{"select from the default policy", `SELECT v FROM d.autogen.w`, "", failed(readWith + "d&measurement=w")},
		{"select from a pattern", `SELECT v FROM /x/`, "", failed(readWith + "DATABASE&measurement=MEASUREMENT")},
		{"select from a select", `SELECT v FROM (SELECT v FROM m)`, "d", failed(readWith + "d&measurement=MEASUREMENT")},
		{"what is not supported", `SHOW SERIES CARDINALITY`, "d",
			failed("not supported: SHOW SERIES CARDINALITY; there are CREATE DATABASE, DROP DATABASE, DROP MEASUREMENT, " +
				"CREATE, ALTER and DROP RETENTION POLICY, and SHOW DATABASES, RETENTION POLICIES, MEASUREMENTS, TAG KEYS, TAG " +
				"VALUES, FIELD KEYS and SERIES")},
		{"nothing", ` ; ;`, "", ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newTestHandler(t)
			write(t, h, "d", "m,host=a,region=eu v=1i,f=1.5 1\nm,host=b v=1i,i=1i,u=1u 2\nm,host=c\\,d,region=eu s=\"x\",b=t 3")
			write(t, h, "d", "a\\ b v=1i 1")
			write(t, h, "d/week", "w,t=x v=1i 1")
			if diff := cmp.Diff(tc.want, query(t, h, tc.db, tc.q)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// SHOW DATABASES shows a client what it may read or write.
func TestShowDatabasesByRights(t *testing.T) {
	h := newTestHandler(t)
	for _, database := range []string{"a", "a/week", "b", "c/week", "d"} {
		write(t, h, database, "m v=1i 1")
	}
	rights := &auth.Rights{
		Read: auth.Databases{Names: []string{"a", "c/week"}}, Write: auth.Databases{Names: []string{"b"}},
	}
	run := &queryRun{
		engine: h.engine, ctx: t.Context(), rights: rights, bytesLeft: queryAnswerBytesMax, read: h.engine.BeginRead(),
	}
	defer run.read.Release()
	series, err := run.showDatabases()
	if err != nil {
		t.Fatal(err)
	}
	want := tableOf("databases", "name", []string{"a", "a/week", "b", "c/week"})
	if diff := cmp.Diff(want, series); diff != "" {
		t.Error(diff)
	}
}

// scanned reads a measurement back.
func scanned(t *testing.T, h *Handler, database, measurement string) string {
	t.Helper()
	source, err := h.engine.Scan(t.Context(), shard.Query{
		Database: database, Measurement: measurement, Selection: segment.AllTime(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	var lines []byte
	for {
		b, err := source.Next()
		if err != nil {
			return string(lines)
		}
		row := 0
		for _, run := range b.Runs {
			for range run.Rows {
				lines = append(appendSeries(lines, measurement, run.Key), ' ')
				for _, c := range b.Columns {
					f := shard.Field{Kind: c.Kind}
					if c.Kind == segment.KindString {
						f.String = c.Strings[row]
					} else {
						f.Number = c.Numbers[row]
					}
					lines = appendValue(append(append(lines, c.Name...), '='), &f)
				}
				lines = append(strconv.AppendInt(append(lines, ' '), b.Times[row], 10), '\n')
				row++
			}
		}
	}
}

// points beyond the retention are the fault of the data, so they are refused with 400 on every API, and the
// others of the batch are stored.
func TestFieldCaseA01PointsBeyondRetention(t *testing.T) {
	for _, path := range []string{"/write?db=d", "/api/v2/write?bucket=d", "/api/v3/write_lp?db=d"} {
		h := newTestHandler(t)
		if got := query(t, h, "", "CREATE DATABASE d WITH DURATION 2w"); got != done {
			t.Fatal(got)
		}
		now := time.Now()
		old, young := now.Add(-4*7*24*time.Hour).UnixNano(), now.UnixNano()
		answer := post(t, h, path+"&precision="+map[bool]string{true: "ns", false: "nanosecond"}[!strings.Contains(path, "v3")],
			fmt.Sprintf("m,s=old v=1i %d\nm,s=young v=2i %d", old, young))
		text := message(t, path, answer)
		if answer.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", path, answer.Code, answer.Body)
		}
		if strings.Contains(text, "points beyond retention policy") {
			t.Errorf("%s: %q makes a client take it for a success", path, text)
		}
		if strings.HasPrefix(path, "/write") && !strings.HasPrefix(text, "partial write: ") {
			t.Errorf("%s: got %q, want a partial write", path, text)
		}
		if got, want := scanned(t, h, "d", "m"), fmt.Sprintf("m,s=young v=2i %d\n", young); got != want {
			t.Errorf("%s: stored is %q, want %q", path, got, want)
		}
	}
}

// What a query lists is bounded, and a limit lists some of very much.
func TestAListingIsBounded(t *testing.T) {
	h := newTestHandler(t)
	var lines strings.Builder
	value := strings.Repeat("x", 1000)
	for i := range 3000 {
		fmt.Fprintf(&lines, "m,t=%04d%s v=1i 1\n", i, value)
	}
	write(t, h, "d", lines.String())
	lines.Reset()
	for i := range 3000 {
		fmt.Fprintf(&lines, "m,t=%04d%s v=1i 1\n", 9999-i, value)
	}
	write(t, h, "d", lines.String())
	run := &queryRun{
		engine: h.engine, ctx: t.Context(), rights: auth.Anyone(), database: "d", bytesLeft: 3 << 20,
		read: h.engine.BeginRead(),
	}
	defer run.read.Release()
	statements, err := parseStatements("SHOW SERIES")
	if err != nil {
		t.Fatal(err)
	}
	if result, err := run.result(statements[0]); err != nil || !strings.Contains(result.Error, "narrow it") {
		t.Errorf("got %.100v and %v, want a refusal", result, err)
	}
	run.bytesLeft = 3 << 20
	if statements, err = parseStatements("SHOW TAG VALUES WITH KEY = t LIMIT 2 OFFSET 1"); err != nil {
		t.Fatal(err)
	}
	result, err := run.result(statements[0])
	if err != nil || len(result.Series) != 1 {
		t.Fatalf("got %+v and %v", result, err)
	}
	want := [][]any{{"t", "0001" + value}, {"t", "0002" + value}}
	if diff := cmp.Diff(want, result.Series[0].Values); diff != "" {
		t.Error(diff)
	}
}

func TestParametersOfAQueryComeFromURLAndForm(t *testing.T) {
	h := newTestHandler(t)
	if answer := post(t, h, "/write?db=d", "m v=1i 1"); answer.Code != http.StatusNoContent {
		t.Fatalf("got %d %s", answer.Code, answer.Body)
	}
	const (
		text = "q=SHOW+MEASUREMENTS"
		form = "application/x-www-form-urlencoded"
		part = "--x\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nSHOW MEASUREMENTS\r\n--x--\r\n"
		want = `{"results":[{"statement_id":0,"series":[{"name":"measurements","columns":["name"],"values":[["m"]]}]}]}`
	)
	for _, tc := range []struct{ name, method, url, body, contentType string }{
		{"GET", "GET", "/query?db=d&" + text, "", ""},
		{"POST with a URL", "POST", "/query?db=d&" + text, "", ""},
		{"POST with a form", "POST", "/query", "db=d&" + text, form},
		{"POST with both", "POST", "/query?db=d", text, form},
		{"POST with parts", "POST", "/query?db=d", part, "multipart/form-data; boundary=x"},
	} {
		answer := do(t, h, tc.method, tc.url, strings.NewReader(tc.body), "Content-Type", tc.contentType)
		if got := strings.TrimSpace(answer.Body.String()); got != want {
			t.Errorf("%s: got %d %s, want %s", tc.name, answer.Code, got, want)
		}
	}
}

func TestCreateDatabaseByGetWarns(t *testing.T) {
	h := newTestHandler(t)
	if answer := do(t, h, http.MethodGet, "/query?q=SHOW+DATABASES", nil); strings.Contains(answer.Body.String(), "warning") {
		t.Errorf("got %s", answer.Body)
	}
	answer := do(t, h, http.MethodGet, "/query?q=CREATE+DATABASE+x", nil)
	if !strings.Contains(answer.Body.String(), `"level":"warning"`) || len(h.engine.Databases()) != 1 {
		t.Errorf("got %s and databases %q", answer.Body, h.engine.Databases())
	}
}

func TestBadQueries(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct{ q, want string }{
		{"", `missing required parameter "q"`},
		{`CREATE DATABASE "x`, "error parsing query: found x, expected identifier at line 1, char 16"},
		{`CREATE DATABASE`, "error parsing query: found EOF, expected identifier at line 1, char 17"},
		{"FOO\x01", `error parsing query: found FOO, expected SELECT, DELETE, SHOW`},
		{`SELECT 1`, "error parsing query: found EOF, expected FROM at line 1, char 9"},
		{strings.Repeat("SHOW DATABASES;", statementsMax+1), "1001 statements"},
		{strings.Repeat(" ", queryTextBytesMax+1), "65537 bytes, at most 65536"},
		{"SELECT v FROM m WHERE " + strings.Repeat("(", queryParenthesesMax+1), "1001 opening parentheses, at most 1000"},
		{"SHOW SERIES FROM m" + strings.Repeat(", /x/", querySlashesMax/2+1), "1002 slashes, at most 1000"},
		{"SHOW SERIES WHERE a = 1" + strings.Repeat(" oR a = 1", queryTermsMax+1), "501 ANDs and ORs, at most 500"},
		{"SELECT v FROM m WHERE " + strings.Repeat("(", queryParenthesesMax), "error parsing query: found EOF"},
	} {
		answer := do(t, h, http.MethodGet, "/query?q="+url.QueryEscape(tc.q), nil)
		got := message(t, "/query", answer)
		if answer.Code != http.StatusBadRequest || !strings.Contains(got, tc.want) {
			t.Errorf("%.20q: got %d %q, want 400 with %q", tc.q, answer.Code, got, tc.want)
		}
	}
}

func TestAFormOfAQueryIsBounded(t *testing.T) {
	h := newTestHandler(t)
	form := "x=" + strings.Repeat("x", queryBodyBytesMax) + "&q=SHOW+DATABASES"
	answer := post(t, h, "/query", form, "Content-Type", "application/x-www-form-urlencoded")
	if got := message(t, "/query", answer); answer.Code != http.StatusRequestEntityTooLarge ||
		!strings.Contains(got, "1048576 bytes") {
		t.Errorf("got %d %s, want 413", answer.Code, answer.Body)
	}
}

// A form that can't be read is told so, and not that a parameter is missing.
func TestAFormThatCannotBeReadIsRefused(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, tc := range []struct{ name, url, body, contentType, want string }{
		{"bad escape in the form", "/query", "q=%zz", form, "parameters can't be read"},
		{"bad escape in the URL", "/query?q=%zz", "", "", "parameters can't be read"},
		{"semicolon", "/query", "q=SHOW+DATABASES;x=1", form, "parameters can't be read"},
		{"bad type", "/query?q=SHOW+DATABASES", "x", "text/plain; =", "parameters can't be read"},
		{"parts without a boundary", "/query", "--x", "multipart/form-data", "parameters can't be read"},
		{"parts that break off", "/query", "--x\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nSHOW",
			"multipart/form-data; boundary=x", "ended early"},
		{"no form", "/query", "q=SHOW+DATABASES", "text/plain", `missing required parameter "q"`},
	} {
		for name, rights := range map[string]string{"anyone": "", "a writer": "write"} {
			made := newTokens(t)
			var headers []string
			h := newTestHandler(t, func(o *Options) {
				if rights != "" {
					made.use(o)
					headers = made.header(rights)
				}
			})
			answer := post(t, h, tc.url, tc.body, append(headers, "Content-Type", tc.contentType)...)
			if got := message(t, "/query", answer); answer.Code != http.StatusBadRequest || !strings.Contains(got, tc.want) {
				t.Errorf("%s, %s: got %d %q, want 400 with %q", tc.name, name, answer.Code, got, tc.want)
			}
		}
	}
}

func TestStatementsWhileNothingIsWritten(t *testing.T) {
	h := newTestHandler(t)
	h.engine.Drain()
	answer := post(t, h, "/query?q=CREATE+DATABASE+x", "")
	body := object(t, answer.Body.Bytes())
	if answer.Code != http.StatusServiceUnavailable || body["cause"] != "draining" {
		t.Errorf("got %d %v, want 503 while draining", answer.Code, body)
	}
}
