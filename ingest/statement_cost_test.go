package ingest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestTheCostliestStatementsEnd executes texts that are as costly as the bounds allow: what took the longest of all that
// was tried, without the bounds 2 to 12 seconds each. The time that is allowed here only a hang exceeds.
func TestTheCostliestStatementsEnd(t *testing.T) {
	h := newTestHandler(t)
	write(t, h, "d", "m,host=a v=1i 1")
	chain := func(term string) string { return strings.Repeat(term, queryTermsMax) }
	for name, q := range map[string]string{
		"OR":                 "SHOW SERIES WHERE a=''" + chain(" OR a=''"),
		"AND":                "SHOW TAG KEYS WHERE a=''" + chain(" AND a=''"),
		"OR in parentheses":  "SHOW SERIES WHERE " + chain("(a='' OR ") + "a=''" + strings.Repeat(")", queryTermsMax),
		"patterns":           "SHOW SERIES WHERE a=''" + chain(" OR a =~ /x{999}/"),
		"patterns of names":  "SHOW SERIES FROM m" + strings.Repeat(", /x{999}/", querySlashesMax/2),
		"a long pattern":     "SHOW SERIES WHERE a =~ /" + strings.Repeat(`\pL`, 20_000) + "/",
		"a nested pattern":   "SHOW SERIES WHERE a =~ /" + strings.Repeat("(", 990) + strings.Repeat(")", 990) + "/",
		"many names":         "SHOW SERIES FROM m" + strings.Repeat(", m", sourcesMax-1),
		"many keys":          "SHOW TAG VALUES WITH KEY IN (a" + strings.Repeat(",a", 30_000) + ")",
		"a long sum":         "SHOW SERIES WHERE a = 1" + strings.Repeat("+1", 30_000),
		"minus in a minus":   "SHOW SERIES WHERE a = " + strings.Repeat("-(", 1000) + "1" + strings.Repeat(")", 1000),
		"selects in selects": strings.Repeat("SELECT v FROM (", 1000) + "SELECT v FROM m" + strings.Repeat(")", 1000),
		"what is not there":  "DELETE FROM m WHERE a=1" + chain(" OR a=1"),
		"many statements":    strings.Repeat("SHOW SERIES WHERE a = 1;", statementsMax),
	} {
		done := make(chan string, 1)
		go func() {
			answer := do(t, h, http.MethodGet, "/query?db=d&q="+url.QueryEscape(q), nil)
			if answer.Code != http.StatusOK {
				t.Errorf("%s: got %d %.300s, want 200", name, answer.Code, answer.Body)
			}
			done <- name
		}()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s does not end", name)
		}
	}
	answer := do(t, h, http.MethodGet, "/query?db=d&q="+url.QueryEscape("SHOW SERIES FROM m"+strings.Repeat(", m", sourcesMax)), nil)
	if !strings.Contains(answer.Body.String(), "FROM names 1001 measurements") {
		t.Errorf("got %d %.300s", answer.Code, answer.Body)
	}
}
