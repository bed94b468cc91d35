package ingest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatements(t *testing.T) {
	for _, tc := range []struct {
		name string
		q    string
		db   string
		want string
	}{
		{"create", `CREATE DATABASE "telegraf"`, "", `{"statement_id":0}`},
		{"create again, bare, in small letters", `create database d`, "", `{"statement_id":0}`},
		{"databases", `SHOW DATABASES`, "",
			`{"statement_id":0,"series":[{"name":"databases","columns":["name"],"values":[["d"],["d/week"]]}]}`},
		{"measurements", `SHOW MEASUREMENTS`, "d",
			`{"statement_id":0,"series":[{"name":"measurements","columns":["name"],"values":[["a b"],["m"]]}]}`},
		{"measurements of the default policy", `SHOW MEASUREMENTS`, "d/autogen",
			`{"statement_id":0,"series":[{"name":"measurements","columns":["name"],"values":[["a b"],["m"]]}]}`},
		{"measurements on", `show measurements on "d/week"`, "",
			`{"statement_id":0,"series":[{"name":"measurements","columns":["name"],"values":[["w"]]}]}`},
		{"measurements without database", `SHOW MEASUREMENTS`, "",
			`{"statement_id":0,"error":"database name required"}`},
		{"measurements of an unknown database", `SHOW MEASUREMENTS`, "no",
			`{"statement_id":0,"error":"database not found: no"}`},
		{"measurements with a limit", `SHOW MEASUREMENTS LIMIT 1`, "d",
			`{"statement_id":0,"error":"not supported: SHOW MEASUREMENTS LIMIT 1"}`},
		{"two", `CREATE DATABASE x; SHOW MEASUREMENTS ON x;`, "", `{"statement_id":0},{"statement_id":1}`},
		{"after an error", `SELECT 1; SHOW DATABASES`, "d",
			`{"statement_id":0,"error":"SELECT is not supported; read points with GET ` +
				`/api/scan?db=d&measurement=MEASUREMENT"},{"statement_id":1,"error":"not executed"}`},
		{"select", `SELECT mean(v) FROM "a b" WHERE time > 0`, "d",
			`{"statement_id":0,"error":"SELECT is not supported; read points with GET ` +
				`/api/scan?db=d&measurement=a+b"}`},
		{"select from a path", `SELECT v FROM e.."m"`, "d",
			`{"statement_id":0,"error":"SELECT is not supported; read points with GET ` +
				`/api/scan?db=e&measurement=m"}`},
		{"select from a pattern", `SELECT v FROM /x/`, "",
			`{"statement_id":0,"error":"SELECT is not supported; read points with GET ` +
				`/api/scan?db=DATABASE&measurement=MEASUREMENT"}`},
		{"create with a policy", `CREATE DATABASE x WITH DURATION 1d`, "",
			`{"statement_id":0,"error":"expected CREATE DATABASE \"name\" and nothing behind it"}`},
		{"create without a name", `CREATE DATABASE`, "",
			`{"statement_id":0,"error":"expected CREATE DATABASE \"name\" and nothing behind it"}`},
		{"create a bad name", `CREATE DATABASE "a/b/c"`, "",
			`{"statement_id":0,"error":"the database \"a/b/c\" has more than one slash"}`},
		{"a name is no keyword", `"SHOW" DATABASES`, "", `{"statement_id":0,"error":"not supported: SHOW DATABASES; ` +
			`there are CREATE DATABASE, SHOW DATABASES and SHOW MEASUREMENTS"}`},
		{"nothing", ` ; ;`, "", ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newTestHandler(t)
			for target, lines := range map[string]string{"db=d": "m v=1i 1\na\\ b v=1i 1", "db=d&rp=week": "w v=1i 1"} {
				if answer := post(t, h, "/write?"+target, lines); answer.Code != http.StatusNoContent {
					t.Fatalf("got %d %s", answer.Code, answer.Body)
				}
			}
			form := url.Values{"q": {tc.q}, "db": {tc.db}}.Encode()
			answer := post(t, h, "/query", form, "Content-Type", "application/x-www-form-urlencoded")
			want := `{"results":[` + tc.want + "]}\n"
			if diff := cmp.Diff(want, answer.Body.String()); diff != "" || answer.Code != http.StatusOK {
				t.Errorf("got %d (-want +got):\n%s", answer.Code, diff)
			}
		})
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
	answer := do(t, h, http.MethodGet, "/query?q=CREATE+DATABASE+x", nil)
	if !strings.Contains(answer.Body.String(), `"level":"warning"`) || len(h.engine.Databases()) != 1 {
		t.Errorf("got %s and databases %q", answer.Body, h.engine.Databases())
	}
}

func TestBadQueries(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct{ q, want string }{
		{"", `missing required parameter "q"`},
		{`CREATE DATABASE "x`, "error parsing query: a quote is never closed"},
		{`CREATE DATABASE "x\`, "error parsing query: a quote is never closed"},
		{strings.Repeat("SHOW DATABASES;", statementsMax+1), "1001 statements"},
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
	if answer.Code != http.StatusBadRequest {
		t.Errorf("got %d %s, want 400", answer.Code, answer.Body)
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
