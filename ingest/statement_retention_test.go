package ingest

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
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

// TestRetentionByStatements gives databases retentions, and lets time pass.
func TestRetentionByStatements(t *testing.T) {
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
