package ingest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/shard"
)

const day = 24 * time.Hour

// agedPoint is a line whose tag and time say how many days old it is.
func agedPoint(days int) string {
	return fmt.Sprintf("m,age=%03d v=1i %d\n", days, time.Now().Add(-time.Duration(days)*day).UnixNano())
}

// agesIn returns the ages of the points of a database, in days.
func agesIn(t *testing.T, h *Handler, database string) string {
	t.Helper()
	var ages []string
	for line := range strings.Lines(scannedOrNone(t, h, database, "m")) {
		ages = append(ages, line[len("m,age="):][:3])
	}
	return strings.Join(ages, " ")
}

// compacted waits until level 0 is empty, in time that tests move.
func compacted(t *testing.T, h *Handler) {
	t.Helper()
	for range 120 {
		if h.engine.Status().Tier.Segments == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("level 0 is not compacted")
}

// emptyPools makes the codec of segments forget its coders of zstd, which it keeps in pools that two collections empty.
// A coder that was made in a bubble can't be used outside of it.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// TestRetentionByStatements gives databases retentions, and lets time pass.
func TestRetentionByStatements(t *testing.T) {
	defer emptyPools()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		h := newHandlerOf(t, newTestEngine(t, func(o *shard.Options) { o.DataDir = dir }))
		started := time.Now()
		for days := range 10 {
			write(t, h, "d", agedPoint(3*days))
			write(t, h, "d/week", agedPoint(3*days))
			write(t, h, "kept", agedPoint(3*days))
			write(t, h, "stale", agedPoint(60+3*days)) // by the clock all of it is too old
		}
		sealNow(t, h)
		compacted(t, h)
		do(t, h, http.MethodPut, "/api/compaction", strings.NewReader(`{"paused":true}`))
		write(t, h, "d", agedPoint(100))
		sealNow(t, h) // 100 days: level 0
		write(t, h, "d", agedPoint(200))
		for _, q := range []string{
			"ALTER RETENTION POLICY autogen ON d DURATION 14d", "ALTER RETENTION POLICY week ON d DURATION 1w",
			`ALTER RETENTION POLICY "autogen" ON "stale" DURATION 14d`, "CREATE DATABASE fresh WITH DURATION 30d",
		} {
			if got := query(t, h, "", q); got != done {
				t.Errorf("%s: got %s", q, got)
			}
		}
		want := `{"statement_id":0,"series":[{"columns":["name","duration","shardGroupDuration","replicaN","default"],` +
			`"values":[["autogen","336h0m0s","24h0m0s",1,true],["week","168h0m0s","24h0m0s",1,false]]}]}`
		if diff := cmp.Diff(want, query(t, h, "d", "SHOW RETENTION POLICIES")); diff != "" {
			t.Error(diff)
		}
		for _, tc := range []struct {
			database   string
			young, old int // days
			refused    int
		}{{"d", 13, 15, 1}, {"d/week", 5, 8, 1}, {"fresh", 29, 31, 1}, {"kept", 31, 400, 0}} {
			path := "/write?db=" + url.QueryEscape(tc.database)
			answer := post(t, h, path, agedPoint(tc.young)+agedPoint(tc.old))
			if tc.refused == 0 {
				if answer.Code != http.StatusNoContent {
					t.Errorf("%s: got %d %s, want 204", tc.database, answer.Code, answer.Body)
				}
				continue
			}
			text := message(t, path, answer)
			if answer.Code != http.StatusBadRequest || !strings.HasPrefix(text, "partial write: ") ||
				!strings.HasSuffix(text, "dropped=1") {
				t.Errorf("%s: got %d %q, want 400 as a partial write", tc.database, answer.Code, text)
			}
		}
		everything := map[string]string{
			"d":      "000 003 006 009 012 013 015 018 021 024 027 100 200",
			"d/week": "000 003 005 006 009 012 015 018 021 024 027",
			"fresh":  "029", "kept": "000 003 006 009 012 015 018 021 024 027 031 400",
			"stale": "060 063 066 069 072 075 078 081 084 087",
		}
		check := func(when string, want map[string]string) {
			t.Helper()
			got := map[string]string{}
			for database := range want {
				got[database] = agesIn(t, h, database)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		check("at first", everything)
		time.Sleep(time.Until(started.Add(10*time.Minute - time.Second)))
		synctest.Wait()
		check("in the first 10 minutes", everything)
		before := l1Files(t, dir)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		// What is in level 0 (100) and in memtables (200) stays, and of stale what is younger than its newest less 14 days.
		check("afterwards", map[string]string{
			"d": "000 003 006 009 012 013 100 200", "d/week": "000 003 005 006",
			"fresh": "029", "kept": everything["kept"], "stale": "060 063 066 069 072",
		})
		if after := l1Files(t, dir); after != before-5-7-5 {
			t.Errorf("%d files of level 1 are left of %d, want %d fewer", after, before, 5+7+5)
		}
	})
}

func l1Files(t *testing.T, dataDir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir, "l1", "*", "*", "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestARefusedWriteOfOldPointsMakesNoDatabase writes nothing but points beyond the configured retention.
func TestARefusedWriteOfOldPointsMakesNoDatabase(t *testing.T) {
	h := newHandlerOf(t, newTestEngine(t, func(o *shard.Options) { o.Retention = 7 * day }))
	for _, path := range writeURLs() {
		if strings.HasPrefix(path, "/api/v3") {
			path += "&precision=ns"
		}
		if answer := post(t, h, path, agedPoint(8)+agedPoint(400)); answer.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", path, answer.Code, answer.Body)
		}
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
	write(t, h, "d", agedPoint(6))
	if got := agesIn(t, h, "d"); got != "006" {
		t.Errorf("got points of %q days, want 006", got)
	}
}

// TestDurationsThatOverflowAreRefused sets retentions that no clock can hold. Some would become short ones.
func TestDurationsThatOverflowAreRefused(t *testing.T) {
	h := newTestHandler(t)
	write(t, h, "d", "m v=1i 1")
	for _, duration := range []string{
		"15251w", "30501w", "30502w", "60998w", "99999999w", "106752d", "213504d", "9223372036854775807w",
		"15250w10000h9223372036854775807ns", "10000h9223372036854775807ns9223372036854775807ns1h",
	} {
		for _, q := range []string{
			"ALTER RETENTION POLICY autogen ON d DURATION " + duration, "CREATE DATABASE x WITH DURATION " + duration,
			"CREATE RETENTION POLICY p ON d DURATION " + duration + " REPLICATION 1",
			"SHOW DATABASES; ALTER RETENTION POLICY autogen ON d DURATION " + duration,
		} {
			answer := post(t, h, "/query?q="+url.QueryEscape(q), "")
			if text := message(t, "/query", answer); answer.Code != http.StatusBadRequest ||
				!strings.Contains(text, "overflowed duration") {
				t.Errorf("%s: got %d %q, want 400", q, answer.Code, text)
			}
		}
	}
	if diff := cmp.Diff([]string{"d"}, h.engine.Databases()); diff != "" {
		t.Errorf("databases (-want +got):\n%s", diff)
	}
	if kept := h.engine.Retention("d"); kept != 0 {
		t.Errorf("points are kept for %s, want for ever", kept)
	}
	for duration, want := range map[string]time.Duration{
		"15250w": 15250 * 7 * day, "1h30m": 90 * time.Minute, "3600000000µ": time.Hour, "90000ms1h": time.Hour + 90*time.Second,
		"7200000000000ns": 2 * time.Hour, "0s": 0, "INF": 0,
	} {
		q := "ALTER RETENTION POLICY autogen ON d DURATION " + duration
		if got := query(t, h, "", q); got != done || h.engine.Retention("d") != want {
			t.Errorf("%s: got %s and %s, want %s", q, got, h.engine.Retention("d"), want)
		}
	}
}

// TestDropRetentionPolicy drops policies with what they hold. Neither the database nor its other policies are concerned,
// the configured retention holds at once for what is written afterwards, and all of that outlives a crash and a restart.
func TestDropRetentionPolicy(t *testing.T) {
	const standard = 30 * day
	configured := func(o *shard.Options) { o.Retention = standard }
	type state struct{ Ages, Kept map[string]string }
	look := func(h *Handler) state {
		now := state{map[string]string{}, map[string]string{}}
		for _, database := range h.engine.Databases() {
			now.Ages[database] = agesIn(t, h, database)
			now.Kept[database] = h.engine.Retention(database).String()
		}
		return now
	}
	for _, tc := range []struct {
		policy, database string
		want             state // after the drop
	}{
		{"week", "d/week", state{
			map[string]string{"d": "005", "d/other": "005"}, map[string]string{"d": "168h0m0s", "d/other": "168h0m0s"},
		}},
		{"autogen", "d", state{
			map[string]string{"d": "", "d/week": "005", "d/other": "005"},
			map[string]string{"d": "720h0m0s", "d/week": "168h0m0s", "d/other": "168h0m0s"},
		}},
		{"unknown", "d/unknown", state{
			map[string]string{"d": "005", "d/week": "005", "d/other": "005"},
			map[string]string{"d": "168h0m0s", "d/week": "168h0m0s", "d/other": "168h0m0s"},
		}},
	} {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s sealed=%t", tc.policy, sealed), func(t *testing.T) {
				dir := t.TempDir()
				engine := openTestEngine(t, configured, func(o *shard.Options) { o.DataDir = dir })
				h := newHandlerOf(t, engine)
				do(t, h, http.MethodPut, "/api/compaction", strings.NewReader(`{"paused":true}`))
				for database, policy := range map[string]string{"d": "autogen", "d/week": "week", "d/other": "other"} {
					write(t, h, database, agedPoint(5))
					query(t, h, "", "ALTER RETENTION POLICY "+policy+" ON d DURATION 7d")
				}
				if sealed {
					sealNow(t, h)
				}
				query(t, h, "", "ALTER RETENTION POLICY autogen ON d DURATION 7d") // looks at the ages once more
				if got := query(t, h, "", `DROP RETENTION POLICY "`+tc.policy+`" ON "d"`); got != done {
					t.Errorf("got %s", got)
				}
				want := state{maps.Clone(tc.want.Ages), maps.Clone(tc.want.Kept)}
				if diff := cmp.Diff(want, look(h)); diff != "" {
					t.Errorf("after the drop (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want, look(crashedWith(t, dir, configured))); diff != "" {
					t.Errorf("after a crash behind the drop (-want +got):\n%s", diff)
				}
				write(t, h, tc.database, agedPoint(20)) // younger than what is configured, older than what was dropped
				want.Ages[tc.database], want.Kept[tc.database] = "020", standard.String()
				if diff := cmp.Diff(want, look(h)); diff != "" {
					t.Errorf("with a later point (-want +got):\n%s", diff)
				}
				if err := engine.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				restarted := newHandlerOf(t, newTestEngine(t, configured, func(o *shard.Options) { o.DataDir = dir }))
				if diff := cmp.Diff(want, look(restarted)); diff != "" {
					t.Errorf("after a restart (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestDropRetentionPolicyOfNothing names what is not there, which is no error and changes nothing, or no policy at all.
func TestDropRetentionPolicyOfNothing(t *testing.T) {
	h := newTestHandler(t)
	write(t, h, "d", "m v=1i 1")
	write(t, h, "e/week", "m v=1i 1")
	for q, want := range map[string]string{
		"DROP RETENTION POLICY week ON nothing": done, "DROP RETENTION POLICY autogen ON nothing": done,
		"DROP RETENTION POLICY week ON d": done, `DROP RETENTION POLICY "" ON d`: done,
		"DROP RETENTION POLICY autogen ON e": done, `DROP RETENTION POLICY "we" ON e`: done,
		`DROP RETENTION POLICY "a/b" ON d`: `{"statement_id":0,"error":"the database \"d/a/b\" has more than one slash"}`,
	} {
		if got := query(t, h, "", q); got != want {
			t.Errorf("%s: got %s, want %s", q, got, want)
		}
	}
	if diff := cmp.Diff([]string{"d", "e/week"}, h.engine.Databases()); diff != "" {
		t.Errorf("databases (-want +got):\n%s", diff)
	}
	for _, database := range []string{"d", "e/week"} {
		if got := points(t, h, database, "m"); len(got) != 1 {
			t.Errorf("%s: got %q, want one point", database, got)
		}
	}
	if answer := post(t, h, "/query?q=DROP+RETENTION+POLICY+week", ""); answer.Code != http.StatusBadRequest {
		t.Errorf("without ON: got %d %s, want 400", answer.Code, answer.Body)
	}
	answer := do(t, h, http.MethodGet, "/query?q=DROP+RETENTION+POLICY+week+ON+d", nil)
	if !strings.Contains(answer.Body.String(), "deprecated use of") {
		t.Errorf("with GET: got %s, want a warning", answer.Body)
	}
}
