package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func newPage(t *testing.T) *Page {
	t.Helper()
	p, err := NewPage()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func serve(t *testing.T, p *Page, method, name string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	if !p.Serve(w, r, name) {
		t.Fatalf("there is no %q", name)
	}
	return w.Result()
}

func TestFilesAreServed(t *testing.T) {
	p := newPage(t)
	for name, kind := range map[string]string{
		"": "text/html", "page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml",
		"uplot.js": "text/javascript", "uplot.css": "text/css", "uplot.txt": "text/plain",
	} {
		got := serve(t, p, http.MethodGet, name)
		body, _ := io.ReadAll(got.Body) // of a recorder
		if got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), kind) || len(body) == 0 {
			t.Errorf("%q: got %d, %d bytes of %s; want %s", name, got.StatusCode, len(body), got.Header.Get("Content-Type"), kind)
		}
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache",
		} {
			if got.Header.Get(header) != want {
				t.Errorf("%q: %s is %q, want %q", name, header, got.Header.Get(header), want)
			}
		}
		head := serve(t, p, http.MethodHead, name)
		if left, _ := io.ReadAll(head.Body); len(left) > 0 || head.ContentLength != int64(len(body)) {
			t.Errorf("HEAD %q: got %d bytes and a length of %d, want none and %d", name, len(left), head.ContentLength, len(body))
		}
	}
}

func TestAKnownFileIsNotSentAgain(t *testing.T) {
	p := newPage(t)
	tag := serve(t, p, http.MethodGet, "page.js").Header.Get("ETag")
	if got := serve(t, p, http.MethodGet, "page.js", "If-None-Match", tag).StatusCode; got != http.StatusNotModified {
		t.Errorf("got %d for the same tag, want 304", got)
	}
	if got := serve(t, p, http.MethodGet, "page.css", "If-None-Match", tag).StatusCode; got != http.StatusOK {
		t.Errorf("got %d for the tag of another file, want 200", got)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	p := newPage(t)
	for _, name := range []string{"nope", "page.go", "assets/page.js", "../page.go", "/page.js", "."} {
		w := httptest.NewRecorder()
		if p.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), name) || w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("%q was answered %d %v", name, w.Code, w.Header())
		}
	}
}

// TestThePageFetchesNothingFromElsewhere reads the files: what they name is there, and nothing is inline, because the
// policy would stop it in every browser.
func TestThePageFetchesNothingFromElsewhere(t *testing.T) {
	p := newPage(t)
	named := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from "\./([^"]+)"|import "([^"]+)"`)
	elsewhere := regexp.MustCompile(`https?://|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(`)
	for name, f := range p.files {
		if strings.HasPrefix(name, "uplot.") || name == "icon.svg" {
			continue
		}
		text := string(f.content)
		if found := elsewhere.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			target := strings.TrimPrefix(match[1]+match[2]+match[3], "web/")
			if _, ok := p.files[target]; !ok && target != "api/status" && target != "metrics" {
				t.Errorf("%s names %s, which is not there", name, target)
			}
		}
	}
	page := string(p.files[index].content)
	if inline := regexp.MustCompile(`<style|<script(?:[^>]*)>[^<]|\son[a-z]+=|\sstyle=`).FindString(page); inline != "" {
		t.Errorf("the page has %q inline", inline)
	}
}

// TestThePageFillsWhatItHas compares the ids that the script knows with those of the page.
func TestThePageFillsWhatItHas(t *testing.T) {
	p := newPage(t)
	page, script := string(p.files[index].content), string(p.files["page.js"].content)
	for _, match := range regexp.MustCompile(`(?:put|text|element)\("([a-z0-9-]+)"[,)]`).FindAllStringSubmatch(script, -1) {
		if !strings.Contains(page, `id="`+match[1]+`"`) {
			t.Errorf("the script fills %s, which the page lacks", match[1])
		}
	}
	for _, match := range regexp.MustCompile(`<data id="([a-z0-9-]+)"`).FindAllStringSubmatch(page, -1) {
		id, tier := match[1], strings.TrimPrefix(match[1], "tier-")
		if !strings.Contains(script, `put("`+id+`"`) && (tier == id || !strings.Contains(script, `"`+tier+`"`)) {
			t.Errorf("nothing fills %s", id)
		}
	}
}
