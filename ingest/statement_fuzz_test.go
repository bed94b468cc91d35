package ingest

import (
	"errors"
	"testing"

	"lineweir/internal/auth"
)

// Whatever a query says, it is parsed or refused with a reason that can be shown, and what only shows something answers
// within bounds and in time.
func FuzzStatements(f *testing.F) {
	for _, q := range []string{
		`SHOW DATABASES; SHOW RETENTION POLICIES ON d`, `SHOW MEASUREMENTS WITH MEASUREMENT =~ /m.*/ WHERE host = 'a' LIMIT 1`,
		`SHOW TAG KEYS FROM d.."m", /x/ WHERE time > now() - 1h SLIMIT 1`, `SHOW FIELD KEYS FROM week.m OFFSET 1`,
		`SHOW TAG VALUES ON d FROM m WITH KEY IN (host, "region") WHERE host =~ /a|b/ OR (region != '' AND time < 5)`,
		`SHOW SERIES WHERE host = 'a' AND region = '' LIMIT 9223372036854775807 OFFSET 9223372036854775807`,
		`CREATE DATABASE "x" WITH DURATION 7d REPLICATION 1 NAME p`, `ALTER RETENTION POLICY p ON d DURATION INF DEFAULT`,
		`SELECT mean(v) FROM (SELECT v FROM m) GROUP BY time(1m)`, `DROP MEASUREMENT "m"; DROP DATABASE d`, "SHOW\x00", `((((`,
	} {
		f.Add(q)
	}
	h := newTestHandler(f)
	if answer := post(f, h, "/write?db=d", "m,host=a,region=eu v=1i 1\nm,host=b f=1 2\nx s=\"\" 3"); answer.Code != 204 {
		f.Fatal(answer.Code)
	}
	f.Fuzz(func(t *testing.T, q string) {
		defer endsInTime(q)()
		statements, err := parseStatements(q)
		var refused *requestError
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("%q: %v is no refusal", q, err)
		}
		run := &queryRun{
			engine: h.engine, ctx: t.Context(), rights: auth.Anyone(), method: "GET", database: "d",
			bytesLeft: queryAnswerBytesMax, read: h.engine.BeginRead(),
		}
		defer run.read.Release()
		for _, statement := range statements {
			if changes(statement) {
				continue
			}
			result, err := run.result(statement)
			if err != nil {
				t.Errorf("%q: %v", q, err)
			}
			if result.Error != sanitize(result.Error, len(result.Error)+3) {
				t.Errorf("%q: the error %q can't be shown", q, result.Error)
			}
		}
	})
}
