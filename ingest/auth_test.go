package ingest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lineweir/internal/auth"
	"lineweir/internal/vfs"
	"lineweir/shard"
)

// tokens are those of a test, by their names.
type tokens struct {
	file    *auth.File
	dataDir string
	secrets map[string]string
}

// newTokens makes a token for each kind of client.
func newTokens(t testing.TB) *tokens {
	t.Helper()
	dir := t.TempDir()
	made := &tokens{auth.NewFile(vfs.OS, dir), dir, map[string]string{"none": "", "unknown": "lw_unknown"}}
	for name, rights := range map[string]auth.Rights{
		"write":     {Write: auth.Databases{Names: []string{"d"}}},
		"read":      {Read: auth.Databases{Names: []string{"d"}}},
		"other":     {Read: auth.Databases{Names: []string{"e"}}, Write: auth.Databases{Names: []string{"e"}}},
		"write-all": {Write: auth.Databases{All: true}},
		"read-all":  {Read: auth.Databases{All: true}},
		"admin":     {Admin: true},
	} {
		secret, err := made.file.Create(t.Context(), name, rights)
		if err != nil {
			t.Fatal(err)
		}
		made.secrets[name] = secret
	}
	return made
}

// header returns what a client of the name sends.
func (t *tokens) header(name string) []string {
	if t.secrets[name] == "" {
		return nil
	}
	return []string{"Authorization", "Token " + t.secrets[name]}
}

func (t *tokens) verifier() *auth.Verifier { return auth.NewVerifier(vfs.OS, t.dataDir, zap.NewNop()) }

// use lets a handler ask for the tokens.
func (t *tokens) use(o *Options) {
	o.Tokens = t.verifier()
	o.Scan = func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "points\n")
		return err
	}
}

// way is how a client gives its token.
type way struct {
	name string
	give func(secret string) (header, parameters string)
}

// ways are all of them, with schemes in whatever letters.
func ways() []way {
	header := func(format string) func(string) (string, string) {
		return func(secret string) (string, string) { return fmt.Sprintf(format, secret), "" }
	}
	basic := func(scheme, user string) func(string) (string, string) {
		return func(secret string) (string, string) {
			return scheme + " " + base64.StdEncoding.EncodeToString([]byte(user+":"+secret)), ""
		}
	}
	parameters := func(format string) func(string) (string, string) {
		return func(secret string) (string, string) { return "", fmt.Sprintf(format, secret) }
	}
	return []way{
		{"Token", header("Token %s")}, {"token", header("token %s")}, {"TOKEN user:", header("TOKEN anybody:%s")},
		{"Bearer", header("Bearer %s")}, {"bEARER", header("bEARER %s")},
		{"Basic", basic("Basic", "anybody")}, {"basic, no user", basic("basic", "")}, {"BASIC", basic("BASIC", "a b")},
		{"u and p", parameters("u=anybody&p=%s")}, {"p", parameters("p=%s")}, {"p, escaped", parameters("%%75=x&%%70=%s")},
	}
}

// request returns a URL and headers that give the token of a client.
func (t *tokens) request(w way, client, target string) (address string, headers []string) {
	if t.secrets[client] == "" {
		return target, nil
	}
	header, parameters := w.give(t.secrets[client])
	if parameters != "" {
		separator := map[bool]string{true: "&", false: "?"}[strings.Contains(target, "?")]
		target += separator + parameters
	}
	if header != "" {
		headers = []string{"Authorization", header}
	}
	return target, headers
}

// clients are all names of tokens, in the order of the columns of tables.
var clients = []string{"none", "unknown", "write", "read", "other", "write-all", "read-all", "admin"}

// TestWhoMayDoWhat sends each request as each client, which gives its token in each way, and reads back what is written.
func TestWhoMayDoWhat(t *testing.T) {
	made := newTokens(t)
	h := newTestHandler(t, made.use)
	for _, tc := range []struct {
		method, url string
		want        []int // by client
	}{
		//                                        none unk  wr   rd   oth  wr*  rd*  admin
		{"POST", "/write?db=d", []int{401, 401, 204, 403, 403, 204, 403, 204}},
		{"POST", "/write?db=d&rp=week", []int{401, 401, 204, 403, 403, 204, 403, 204}},
		{"POST", "/write?db=d&rp=autogen", []int{401, 401, 204, 403, 403, 204, 403, 204}},
		{"POST", "/write?db=e", []int{401, 401, 403, 403, 204, 204, 403, 204}},
		{"POST", "/write?db=dd", []int{401, 401, 403, 403, 403, 204, 403, 204}},
		{"POST", "/write", []int{401, 401, 400, 400, 400, 400, 400, 400}},
		{"POST", "/api/v2/write?bucket=d", []int{401, 401, 204, 403, 403, 204, 403, 204}},
		{"POST", "/api/v2/write?bucket=d/week", []int{401, 401, 204, 403, 403, 204, 403, 204}},
		{"POST", "/api/v2/write?bucket=e/d", []int{401, 401, 403, 403, 204, 204, 403, 204}},
		{"POST", "/api/v3/write_lp?db=d&precision=ns", []int{401, 401, 204, 403, 403, 204, 403, 204}},
		{"GET", "/api/scan?db=d&measurement=m", []int{401, 401, 403, 200, 403, 403, 200, 200}},
		{"GET", "/api/scan?db=e&measurement=m", []int{401, 401, 403, 403, 200, 403, 200, 200}},
		{"GET", "/api/scan?measurement=m", []int{401, 401, 403, 200, 200, 403, 200, 200}},
		{"GET", "/", []int{401, 401, 403, 200, 200, 403, 200, 200}},
		{"HEAD", "/", []int{401, 401, 403, 200, 200, 403, 200, 200}},
		{"GET", "/metrics", []int{401, 401, 403, 200, 200, 403, 200, 200}},
		{"GET", "/api/status", []int{401, 401, 403, 200, 200, 403, 200, 200}},
		{"POST", "/api/seal?wait=true", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{"PUT", "/api/compaction", []int{401, 401, 403, 403, 403, 403, 403, 400}},
		{"GET", "/query?q=SHOW+DATABASES", []int{401, 401, 200, 200, 200, 200, 200, 200}},
		{"POST", "/query?q=CREATE+DATABASE+d", []int{401, 401, 200, 403, 403, 200, 403, 200}},
		{"GET", "/query?q=SHOW+MEASUREMENTS&db=d", []int{401, 401, 403, 200, 403, 403, 200, 200}},
		{"POST", "/query?q=DROP+MEASUREMENT+x&db=d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{"GET", "/ping", []int{204, 204, 204, 204, 204, 204, 204, 204}},
		{"HEAD", "/ping", []int{204, 204, 204, 204, 204, 204, 204, 204}},
		{"GET", "/health", []int{200, 200, 200, 200, 200, 200, 200, 200}},
		{"GET", "/ready", []int{200, 200, 200, 200, 200, 200, 200, 200}},
		{"GET", "/nope", []int{404, 404, 404, 404, 404, 404, 404, 404}},
		{"GET", "/write", []int{405, 405, 405, 405, 405, 405, 405, 405}},
	} {
		for _, w := range ways() {
			var got []int
			for i, client := range clients {
				address, headers := made.request(w, client, tc.url)
				line := fmt.Sprintf("%s v=%di %d", lineOf(client, w), i, i+1)
				got = append(got, do(t, h, tc.method, address, strings.NewReader(line), headers...).Code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s %s, with %s, by %v (-want +got):\n%s", tc.method, tc.url, w.name, clients, diff)
			}
		}
	}
	for i, client := range clients {
		for _, w := range ways() {
			for database, allowed := range map[string][]string{
				"d": {"write", "write-all", "admin"}, "d/week": {"write", "write-all", "admin"},
				"e": {"other", "write-all", "admin"}, "dd": {"write-all", "admin"},
			} {
				var want []string
				if slices.Contains(allowed, client) {
					want = []string{fmt.Sprintf("%d v=%d", i+1, i)}
				}
				if diff := cmp.Diff(want, points(t, h, database, lineOf(client, w))); diff != "" {
					t.Errorf("database %s holds of %s with %s (-want +got):\n%s", database, client, w.name, diff)
				}
			}
		}
	}
}

// lineOf is the measurement that a client writes when it gives its token in a way.
func lineOf(client string, w way) string {
	return "by_" + client + "_" + strings.NewReplacer(" ", "_", ",", "_", ":", "_").Replace(w.name)
}

// TestEveryRouteIsGuarded finds routes that somebody adds without a thought of who may use them.
func TestEveryRouteIsGuarded(t *testing.T) {
	h := newTestHandler(t, newTokens(t).use)
	open := []string{"/ping", "/health", "/ready"}
	routes := h.table()
	for _, api := range writeAPIs() {
		routes = append(routes, route{path: api.path, methods: []string{http.MethodPost}})
	}
	for _, route := range routes {
		for _, method := range route.methods {
			answer := do(t, h, method, route.path, nil)
			if refused := answer.Code == http.StatusUnauthorized; refused == slices.Contains(open, route.path) {
				t.Errorf("%s %s: got %d", method, route.path, answer.Code)
			}
		}
	}
}

// TestWithoutTokensEverybodyMayDoEverything sends credentials that nothing looks at.
func TestWithoutTokensEverybodyMayDoEverything(t *testing.T) {
	h := newTestHandler(t, func(o *Options) { o.Tokens = auth.NewVerifier(vfs.OS, t.TempDir(), zap.NewNop()) })
	for _, headers := range [][]string{nil, {"Authorization", "Token any"}, {"Authorization", "nonsense"}} {
		for _, url := range append(writeURLs(), "/write?db=d&u=a&p=b") {
			if answer := post(t, h, url, "m v=1i 1", headers...); answer.Code != http.StatusNoContent {
				t.Errorf("%s, %q: got %d %s, want 204", url, headers, answer.Code, answer.Body)
			}
		}
		if answer := do(t, h, http.MethodPost, "/api/seal", nil, headers...); answer.Code != http.StatusAccepted {
			t.Errorf("a seal, %q: got %d, want 202", headers, answer.Code)
		}
	}
}

// TestCredentials covers A-36: every form, on every write path. Each accepted write can be read back.
func TestCredentials(t *testing.T) {
	made := newTokens(t)
	secret := made.secrets["write"]
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, tc := range []struct {
		name, header, parameters string
		status                   int
	}{
		{"Basic, any user", basic("ignored:" + secret), "", 204},
		{"Basic, no user", basic(":" + secret), "", 204},
		{"Basic in capitals", "BASIC " + strings.TrimPrefix(basic("a:"+secret), "Basic "), "", 204},
		{"Basic, the token as user", basic(secret + ":"), "", 401},
		{"Basic, not base64", "Basic " + secret, "", 401},
		{"Token", "Token " + secret, "", 204},
		{"token, user:token", "token ignored:" + secret, "", 204},
		{"Bearer", "Bearer " + secret, "", 204},
		{"bearer, two spaces", "bearer  " + secret, "", 204},
		{"u and p", "", "&u=ignored&p=" + secret, 204},
		{"p alone", "", "&p=" + secret, 204},
		{"p with escapes", "", "&p=" + strings.Replace(secret, "_", "%5F", 1), 204},
		{"p before the others", "", "&p=" + secret + "&x=y", 204},
		{"u alone", "", "&u=" + secret, 401},
		{"p is empty, the header is good", "Token " + secret, "&u=&p=", 204},
		{"p is wrong, the header is good", "Token " + secret, "&u=a&p=b", 401},
		{"p is good, the header is wrong", "Token wrong", "&u=a&p=" + secret, 204},
		{"p can't be read", "", "&p=%zz", 401},
		{"an escaped name", "", "&%70=" + secret, 204},
		{"p twice, the first is good", "", "&p=" + secret + "&p=wrong", 204},
		{"p twice, the second is good", "", "&p=wrong&p=" + secret, 401},
		{"no scheme", secret, "", 401},
		{"unknown scheme", "Digest " + secret, "", 401},
		{"scheme alone", "Token", "", 401},
		{"nothing", "", "", 401},
		{"a part of a token", "Token " + secret[:len(secret)-1], "", 401},
		{"very long", "Token " + strings.Repeat("x", 5000), "", 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newTestHandler(t, made.use)
			for i, url := range writeURLs() {
				answer := post(t, h, url+tc.parameters, fmt.Sprintf("m v=%di %d", i, i+1), "Authorization", tc.header)
				if answer.Code != tc.status {
					t.Errorf("%s: got %d %s, want %d", url, answer.Code, answer.Body, tc.status)
				}
			}
			want := 0
			if tc.status == http.StatusNoContent {
				want = len(writeURLs())
			}
			if got := points(t, h, "d", "m"); len(got) != want {
				t.Errorf("got points %q, want %d", got, want)
			}
		})
	}
}

// TestRefusalsOfClients holds the answers to the shape of each API, and to what browsers and agents act on.
func TestRefusalsOfClients(t *testing.T) {
	made := newTokens(t)
	h := newTestHandler(t, made.use)
	for _, tc := range []struct {
		client string
		status int
		code   string // of version 2
		text   string
	}{
		{"none", 401, "unauthorized", "a token is needed"},
		{"unknown", 401, "unauthorized", "not known"},
		{"other", 403, "forbidden", `may not write the database "d"`},
	} {
		for _, url := range writeURLs() {
			answer := post(t, h, url, "m v=1i 1", made.header(tc.client)...)
			header := answer.Header()
			if text := message(t, url, answer); answer.Code != tc.status || !strings.Contains(text, tc.text) ||
				header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s: got %d %v %q, want %d %q", tc.client, url, answer.Code, header, text, tc.status, tc.text)
			}
			if got := object(t, answer.Body.Bytes())["code"]; strings.HasPrefix(url, "/api/v2") && got != tc.code {
				t.Errorf("%s, %s: got code %v, want %s", tc.client, url, got, tc.code)
			}
			want := map[bool]string{true: `Basic realm="lineweir"`}[tc.status == http.StatusUnauthorized]
			if got := header.Get("WWW-Authenticate"); got != want {
				t.Errorf("%s, %s: got WWW-Authenticate %q, want %q", tc.client, url, got, want)
			}
			for _, active := range activeText {
				if strings.Contains(answer.Body.String(), active) {
					t.Errorf("%s, %s: %s holds %q", tc.client, url, answer.Body, active)
				}
			}
		}
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
}

// TestClientsAreRefusedUnread lets no body in before its client.
func TestClientsAreRefusedUnread(t *testing.T) {
	made := newTokens(t)
	h := newTestHandler(t, made.use)
	for _, client := range []string{"none", "unknown", "read"} {
		for _, url := range append(writeURLs(), "/api/seal") {
			r := httptest.NewRequest(http.MethodPost, url, unreadable{t})
			r.ContentLength = -1
			for i, value := range made.header(client) {
				if i == 1 {
					r.Header.Set("Authorization", value)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
				t.Errorf("%s, %s: got %d", client, url, w.Code)
			}
		}
	}
}

// TestUnreadableTokensAre503 keeps agents from dropping what they send: only a verdict is 401 or 403.
func TestUnreadableTokensAre503(t *testing.T) {
	made := newTokens(t)
	path := filepath.Join(made.dataDir, "auth", "tokens")
	if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newTestHandler(t, made.use)
	for _, client := range []string{"none", "unknown", "write", "admin"} {
		for _, url := range writeURLs() {
			answer := post(t, h, url, "m v=1i 1", made.header(client)...)
			body := object(t, answer.Body.Bytes())
			if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") != "1" ||
				body["cause"] != reasonTokens || strings.Contains(answer.Body.String(), made.dataDir) {
				t.Errorf("%s, %s: got %d %s, want 503", client, url, answer.Code, answer.Body)
			}
		}
	}
	answer := do(t, h, http.MethodGet, "/ready", nil)
	if body := object(t, answer.Body.Bytes()); answer.Code != http.StatusServiceUnavailable ||
		body["cause"] != reasonTokens || answer.Header().Get("Retry-After") != "1" {
		t.Errorf("/ready: got %d %s, want 503", answer.Code, answer.Body)
	}
	if answer := do(t, h, http.MethodGet, "/health", nil); answer.Code != http.StatusOK {
		t.Errorf("/health: got %d, want 200: no restart would help", answer.Code)
	}
}

func TestTokensChangeWhileTheServerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := auth.NewFile(vfs.OS, dir)
		h := newTestHandler(t, func(o *Options) { o.Tokens = auth.NewVerifier(vfs.OS, dir, zap.NewNop()) })
		write := func(when, secret string, want int) {
			t.Helper()
			time.Sleep(time.Second)
			answer := post(t, h, "/write?db=d", "m v=1i 1", "Authorization", "Bearer "+secret)
			if answer.Code != want {
				t.Errorf("%s: got %d %s, want %d", when, answer.Code, answer.Body, want)
			}
		}
		write("before the first token", "", http.StatusNoContent)
		secret, err := file.Create(t.Context(), "agent", auth.Rights{Write: auth.Databases{Names: []string{"d"}}})
		if err != nil {
			t.Fatal(err)
		}
		write("without the token", "", http.StatusUnauthorized)
		write("with the token", secret, http.StatusNoContent)
		if _, err = file.Revoke(t.Context(), "agent"); err != nil {
			t.Fatal(err)
		}
		write("with the revoked token", secret, http.StatusUnauthorized)
		write("without a token, after the last one", "", http.StatusUnauthorized)
	})
}

// TestTokensInURLsAreNeverTold sends a token to every route, and to some that fail, and looks for it in what is logged
// and answered.
func TestTokensInURLsAreNeverTold(t *testing.T) {
	made := newTokens(t)
	core, logs := observer.New(zap.DebugLevel)
	var scanned []string
	h := newTestHandler(t, made.use, func(o *Options) {
		o.Logger = zap.New(core)
		o.Scan = func(_ http.ResponseWriter, r *http.Request) error {
			scanned = append(scanned, r.URL.String()+" "+r.RequestURI)
			return errors.New("a failure that is logged: " + r.URL.String())
		}
	})
	for _, name := range []string{"admin", "unknown"} {
		secret := made.secrets[name]
		credentials := "u=someone&p=" + url.QueryEscape(secret)
		for _, path := range []string{
			"/write?db=d&", "/write?", "/write?db=d&precision=x&", "/api/v2/write?bucket=d&", "/api/v3/write_lp?db=d&",
			"/api/scan?db=d&measurement=m&", "/query?q=SELECT+1&", "/query?q=nonsense&", "/api/status?", "/nope?",
			"/api/seal?", "/write?db=a;b&", "/query?q=SELECT+*+FROM+m&db=d&",
		} {
			for _, method := range []string{http.MethodPost, http.MethodGet} {
				answer := do(t, h, method, path+credentials, strings.NewReader("m v=1i 1\nbad"))
				told := fmt.Sprint(answer.Header(), answer.Body)
				if strings.Contains(told, secret) {
					t.Errorf("%s %s: the answer tells the token: %s", method, path, told)
				}
			}
		}
		for _, entry := range logs.All() {
			if told := fmt.Sprint(entry.Message, entry.ContextMap()); strings.Contains(told, secret) {
				t.Errorf("the log tells the token: %s", told)
			}
		}
	}
	if len(scanned) != 1 || strings.Contains(scanned[0], "p=") || logs.Len() == 0 {
		t.Errorf("got scans of %q and %d log entries, want one and some", scanned, logs.Len())
	}
}

// TestAMisplacedTokenIsNotTold sends a token where something else should stand, which is then refused and quoted.
func TestAMisplacedTokenIsNotTold(t *testing.T) {
	made := newTokens(t)
	s := startServer(t, made.use)
	s.handler.options.Scan = func(http.ResponseWriter, *http.Request) error { return shard.ErrDatabaseNotFound }
	for _, client := range []string{"write", "admin"} {
		secret := made.secrets[client]
		good := made.header(client)
		for _, tc := range []struct {
			method, path, body string
			headers            []string
		}{
			{"POST", "/write?db=" + secret + "%00", "m v=1i 1", nil},
			{"POST", "/write?db=d&rp=a/" + secret, "m v=1i 1", nil},
			{"POST", "/write?db=d&precision=" + secret, "m v=1i 1", nil},
			{"POST", "/write?db=d&consistency=" + secret, "m v=1i 1", nil},
			{"POST", "/write?db=d", "m v=" + secret, nil},
			{"POST", "/write?db=d", strings.Repeat(" ", 90) + "m v=" + secret, nil},
			{"POST", "/write?db=d", "m v=1i 1", []string{"Content-Encoding", secret}},
			{"POST", "/write/" + secret, "m v=1i 1", nil},
			{secret, "/write?db=d", "", nil},
			{"POST", "/query?db=d&q=" + secret, "", nil},
			{"POST", "/query?q=SHOW+MEASUREMENTS&db=a/b/" + secret, "", nil},
			{"POST", "/query?q=SHOW+MEASUREMENTS&db=" + secret, "", nil},
			{"POST", "/query?q=SHOW+STATS+FOR+'" + secret + "'", "", nil},
			{"GET", "/query?q=ALTER+RETENTION+POLICY+%22" + secret + "%22+ON+d+DURATION+1d", "", nil},
			{"GET", "/query?q=DROP+DATABASE+%22" + secret + "%22", "", nil},
			{"POST", "/api/v2/write?bucket=a/b/" + secret, "m v=1i 1", nil},
			{"POST", "/api/v2/write?bucket=d", "m v=" + secret, nil},
			{"POST", "/api/v2/" + secret, "m v=1i 1", nil},
			{"POST", "/api/v3/write_lp?db=d", "m v=1i 1\n" + secret, nil},
			{"POST", "/api/v3/write_lp?db=d&no_sync=" + secret, "m v=1i 1", nil},
			{"GET", "/api/scan?measurement=m&db=" + secret, "", nil},
			{"PUT", "/api/compaction", `{"` + secret + `":1}`, nil},
		} {
			answer := s.send(tc.method, tc.path, strings.NewReader(tc.body), append(good, tc.headers...)...)
			answer.Header.Del("Request-Id")
			told := fmt.Sprint(answer.Header, string(answer.body))
			if answer.StatusCode == http.StatusNoContent || strings.Contains(told, secret[:30]) {
				t.Errorf("%s %s %q, as %s: got %d %s", tc.method, tc.path, tc.body, client, answer.StatusCode, told)
			}
		}
	}
}

// TestStatementsAskForRights runs each statement for each client. A query that may not run as a whole does not run in
// part.
func TestStatementsAskForRights(t *testing.T) {
	made := newTokens(t)
	h := newTestHandler(t, made.use)
	for _, tc := range []struct {
		q, db string
		want  []int
	}{
		//                                     none unk  wr   rd   oth  wr*  rd*  admin
		{`CREATE DATABASE "d"`, "", []int{401, 401, 200, 403, 403, 200, 403, 200}},
		{`create database d`, "", []int{401, 401, 200, 403, 403, 200, 403, 200}},
		{`CREATE DATABASE "d" WITH NAME autogen`, "", []int{401, 401, 200, 403, 403, 200, 403, 200}},
		{`CREATE DATABASE "d" WITH DURATION 30d`, "", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`CREATE DATABASE new`, "", []int{401, 401, 403, 403, 403, 200, 403, 200}},
		{`CREATE DATABASE d; CREATE DATABASE new2`, "", []int{401, 401, 403, 403, 403, 200, 403, 200}},
		{`SHOW DATABASES`, "", []int{401, 401, 200, 200, 200, 200, 200, 200}},
		{`SHOW MEASUREMENTS`, "d", []int{401, 401, 403, 200, 403, 403, 200, 200}},
		{`SHOW MEASUREMENTS ON d`, "e", []int{401, 401, 403, 200, 403, 403, 200, 200}},
		{`SHOW MEASUREMENTS ON e`, "d", []int{401, 401, 403, 403, 200, 403, 200, 200}},
		{`SHOW TAG KEYS FROM "e".."m"`, "d", []int{401, 401, 403, 403, 403, 403, 200, 200}},
		{`SHOW TAG KEYS FROM "m", "e"."week".m`, "d", []int{401, 401, 403, 403, 403, 403, 200, 200}},
		{`SHOW FIELD KEYS FROM "e"..m`, "d", []int{401, 401, 403, 403, 403, 403, 200, 200}},
		{`SHOW TAG VALUES FROM "e"../x/ WITH KEY = a`, "d", []int{401, 401, 403, 403, 403, 403, 200, 200}},
		{`SHOW SERIES FROM "e"..m`, "d", []int{401, 401, 403, 403, 403, 403, 200, 200}},
		{`SHOW SERIES FROM week.m`, "d", []int{401, 401, 403, 200, 403, 403, 200, 200}},
		{`SHOW MEASUREMENTS WITH MEASUREMENT = "e"..m`, "d", []int{401, 401, 403, 403, 403, 403, 200, 200}},
		{`SHOW RETENTION POLICIES ON e`, "d", []int{401, 401, 403, 403, 200, 403, 200, 200}},
		{`SHOW RETENTION POLICIES`, "d", []int{401, 401, 403, 200, 403, 403, 200, 200}},
		{`SHOW USERS`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`SELECT * FROM m`, "d", []int{401, 401, 403, 200, 403, 403, 200, 200}},
		{`SELECT * FROM "e"."week"."m"`, "d", []int{401, 401, 403, 403, 200, 403, 200, 200}},
		{`DROP DATABASE nothing`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`DROP MEASUREMENT nothing`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`DROP SERIES FROM nothing`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`DELETE FROM nothing`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`CREATE RETENTION POLICY p ON d DURATION 1d REPLICATION 1`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`ALTER RETENTION POLICY p ON d DURATION 1d`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`DROP RETENTION POLICY p ON d`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{`SHOW DATABASES; DROP DATABASE nothing`, "d", []int{401, 401, 403, 403, 403, 403, 403, 200}},
		{``, "d", []int{401, 401, 400, 400, 400, 400, 400, 400}},
	} {
		var got []int
		for _, client := range clients {
			form := url.Values{"q": {tc.q}, "db": {tc.db}}.Encode()
			answer := post(t, h, "/query", form, append(made.header(client),
				"Content-Type", "application/x-www-form-urlencoded")...)
			got = append(got, answer.Code)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s, by %v (-want +got):\n%s", tc.q, clients, diff)
		}
	}
	for _, client := range []string{"write", "read"} {
		const form = "application/x-www-form-urlencoded"
		const parts = "multipart/form-data; boundary=x"
		for _, tc := range []struct{ url, contentType, body string }{
			{"/query?q=DROP+DATABASE+d", form, "q=SHOW+DATABASES"},
			{"/query?q=SHOW+DATABASES", form, "q=DROP+DATABASE+d"},
			{"/query?q=SHOW+DATABASES&q=DROP+DATABASE+d", form, ""},
			{"/query?q=SHOW+MEASUREMENTS&db=d", form, "db=e"},
			{"/query?q=SHOW+MEASUREMENTS&db=e", form, "db=d"},
			{"/query", parts, "--x\r\nContent-Disposition: form-data; name=q; filename=f\r\n\r\nDROP DATABASE d\r\n--x--\r\n"},
			{"/query", parts, "--x\r\nContent-Disposition: form-data; name=q\r\n\r\nDROP DATABASE d\r\n--x--\r\n"},
		} {
			answer := post(t, h, tc.url, tc.body, append(made.header(client), "Content-Type", tc.contentType)...)
			if answer.Code != http.StatusForbidden {
				t.Errorf("%s, %s with %q: got %d %s, want 403", client, tc.url, tc.body, answer.Code, answer.Body)
			}
		}
	}
	answer := do(t, h, http.MethodGet, "/query?q=DROP+nonsense", nil, made.header("write")...)
	if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "error parsing query") {
		t.Errorf("no InfluxQL: got %d %s, want 400", answer.Code, answer.Body)
	}
}

func TestRightsOfARequestThatNoGuardLetIn(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if rights := rightsOf(r.Context()); !rights.IsZero() || rights.Admin {
		t.Errorf("got %+v, want none", rights)
	}
}
