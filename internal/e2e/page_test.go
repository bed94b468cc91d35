package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pageLimit bounds each wait for something to show on the page. Only a hang exceeds it.
const pageLimit = 2 * time.Minute

// TestStatusPage opens the status page in a browser, while lineweir load drives the gate shut, and operators open it.
func TestStatusPage(t *testing.T) {
	outside(t)
	require(t, "chromium", found("chromium"))
	s := start(t, t.TempDir(), append(slices.Clone(tinyTier), "admission.retry_after_max=9s")...)
	b := openBrowser(t, s)
	b.await("the page says that the gate is open", `document.body.dataset.state === "open"`)

	s.drain(t, true)
	load := startLoad(t, s)
	b.await("the page says that writes are held back, why, and until when", `
		document.body.dataset.state === "holding" && document.title.startsWith("Holding back") &&
		document.querySelector("#verdict").textContent === "Holding back" &&
		document.querySelector("#why").textContent.includes("(l0_full)") &&
		document.querySelector("#until").textContent.startsWith("Until compaction is resumed")`)
	b.await("the page lists refusals", `
		document.querySelector("#refusals .cause").textContent === "l0_full" &&
		/^[1-9] s$/.test(document.querySelector("#refusals td:nth-child(3)").textContent) &&
		document.querySelector("#causes").textContent.startsWith("l0_full") &&
		document.querySelector(".shard").classList.contains("blocked")`)

	s.must(t, http.MethodPut, "/api/compaction", `{"paused":false,"max_bytes_per_second":10000}`, http.StatusOK)
	b.await("the page tells the time until which writes are held back", `
		document.body.dataset.state === "holding" &&
		/^Until about \d\d:\d\d:\d\d: the next seal is expected in /.test(document.querySelector("#until").textContent)`)

	s.drain(t, true)
	load.signal(t, syscall.SIGINT)
	load.wait(t, pageLimit)
	b.awaitFigures()

	s.must(t, http.MethodPut, "/api/compaction", `{"paused":false,"max_bytes_per_second":0}`, http.StatusOK)
	b.await("the page says that the gate is open again", `document.body.dataset.state === "open"`)
	b.do("open the page anew", chromedp.Reload())
	b.await("a page that is opened late has the samples from before",
		`Number(document.querySelector("#plots").dataset.samples) > 3 && document.querySelectorAll("#plots canvas").length === 6`)
	b.awaitFigures()
	b.checkSamples(s)
	b.checkKeyboard()
	b.checkLooks()
	b.checkCauses(s)
	b.checkComplaints()
	b.checkLostServer(s)
}

// startLoad loads the server from a process of its own until it is interrupted.
func startLoad(t *testing.T, s *server) *process {
	t.Helper()
	path, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "load", "run", "--url", "http://"+s.address, "--db", "weir", "--series", "100",
		"--batch", "50", "--writers", "2", "--rate", "2000", "--on-refusal", "drop", "--duration", "10m")
	cmd.Dir, cmd.Env = t.TempDir(), foreignEnvironment()
	return startProcess(t, cmd)
}

// browser is a page in a headless Chromium.
type browser struct {
	t      *testing.T
	server *server
	ctx    context.Context

	mu         sync.Mutex
	address    string   // of the page
	complaints []string // of the console, scripts that failed, and requests to elsewhere
}

// openBrowser starts a browser and opens the status page.
func openBrowser(t *testing.T, s *server) *browser {
	t.Helper()
	b := startBrowser(t)
	b.server = s
	b.open("the status page", "http://"+s.address+"/")
	return b
}

// open opens a page, which may ask for nothing but what begins like its own address.
func (b *browser) open(what, address string) {
	b.t.Helper()
	b.mu.Lock()
	b.address = address
	b.mu.Unlock()
	b.do("open "+what, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(address))
}

// startBrowser starts Chromium with a fresh profile. The browser's whole process group has ended when the test ends.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	profile, err := os.MkdirTemp(scratch, "chromium-") // goes with scratch, when the browser is surely gone
	if err != nil {
		t.Fatal(err)
	}
	var command *exec.Cmd
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath("chromium"), chromedp.UserDataDir(profile), chromedp.Env("HOME=" + profile),
		chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.DisableGPU,
		chromedp.CombinedOutput(io.Discard), chromedp.WSURLReadTimeout(pageLimit),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			command = cmd
			ownGroup(cmd)
		}),
	}
	for _, flag := range []string{
		"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() {
		if command != nil && command.Process != nil {
			defer endGroup(command.Process.Pid)
		}
		cancel() // waits for the browser
		cancelAllocator()
	})
	started := time.AfterFunc(pageLimit, cancel) // a context with a timeout would end the browser
	err = chromedp.Do(ctx)
	if !started.Stop() || err != nil {
		t.Fatalf("chromium does not start within %v: %v", pageLimit, err)
	}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	return b
}

// listen collects what the browser complains about, and what we do.
func (b *browser) listen(event any) {
	complaint := ""
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.address) && !strings.HasPrefix(e.Request.URL, "data:") {
			complaint = "asks for " + e.Request.URL
		}
	case *runtime.EventExceptionThrown:
		complaint = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			complaint += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		complaint = "console." + string(e.Type)
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelWarning && e.Entry.Level != log.EntryLevelError {
			return
		}
		complaint = string(e.Entry.Level) + ": " + e.Entry.Text + " " + e.Entry.URL
	}
	if complaint != "" {
		b.complaints = append(b.complaints, complaint)
	}
}

func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageLimit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageLimit)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// await waits until a condition in the page holds. One that can't be evaluated yet doesn't hold.
func (b *browser) await(what, condition string) {
	b.t.Helper()
	deadline := time.Now().Add(pageLimit)
	for !evaluate[bool](b, "(() => { try { return !!("+condition+") } catch { return false } })()") {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %v: %s. The page shows:\n%s", pageLimit, what, b.text())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (b *browser) text() string { return evaluate[string](b, "document.body.innerText") }

// figures are numbers by the ids of the elements that show them.
type figures map[string]float64

// shown is a figure of the page: what a reader sees, and the exact value beside it.
type shown struct {
	Value float64 `json:"value"`
	Text  string  `json:"text"`
}

// awaitFigures waits until the page shows what /api/status says, which takes a moment in which neither changes.
func (b *browser) awaitFigures() {
	b.t.Helper()
	deadline := time.Now().Add(pageLimit)
	for {
		want := statusFigures(b.t, b.server)
		got := evaluate[map[string]shown](b, `Object.fromEntries([...document.querySelectorAll("data[id]")]
			.filter((e) => e.value !== "").map((e) => [e.id, { value: Number(e.value), text: e.textContent }]))`)
		differences := differing(want, got)
		if differences == "" {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %v: the page shows what the status says; %s", pageLimit, differences)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func differing(want figures, got map[string]shown) string {
	var differences []string
	for id, value := range want {
		switch figure, ok := got[id]; {
		case !ok || figure.Value != value:
			differences = append(differences, fmt.Sprintf("%s: %v, want %v", id, figure.Value, value))
		case !figure.readable():
			differences = append(differences, fmt.Sprintf("%s shows %q for %v", id, figure.Text, value))
		}
	}
	return strings.Join(differences, "; ")
}

// readable holds what a reader sees to the exact value: whole numbers as they are, sizes to three digits.
func (s shown) readable() bool {
	number, unit, sized := strings.Cut(s.Text, " ")
	read, err := strconv.ParseFloat(strings.ReplaceAll(number, "\u202f", ""), 64)
	scale, ok := map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
	off := read*scale - s.Value
	return err == nil && ok && (off == 0 || sized && max(off, -off) <= s.Value/150)
}

// statusFigures are what the page should show.
func statusFigures(t *testing.T, s *server) figures {
	t.Helper()
	var status struct {
		Tier      map[string]any `json:"tier"`
		WAL       map[string]any `json:"wal"`
		Drain     map[string]any `json:"compaction"`
		Writes    map[string]any `json:"writes"`
		Admission map[string]any `json:"admission"`
	}
	decode(t, s.must(t, http.MethodGet, "/api/status", "", http.StatusOK).body, &status)
	number := func(from map[string]any, key string) float64 {
		value, ok := from[key].(float64)
		if !ok {
			t.Fatalf("the status has no number %s", key)
		}
		return value
	}
	refused := 0.0
	for _, count := range status.Admission["refused"].(map[string]any) {
		refused += count.(float64)
	}
	return figures{
		"tier-capacity":   number(status.Tier, "capacity_bytes"),
		"tier-soft":       number(status.Tier, "soft_bytes"),
		"tier-level":      number(status.Tier, "registered_bytes") + number(status.Tier, "reserved_bytes"),
		"tier-registered": number(status.Tier, "registered_bytes"),
		"tier-reserved":   number(status.Tier, "reserved_bytes"),
		"tier-highest":    number(status.Tier, "highest_bytes"),
		"tier-segments":   number(status.Tier, "segments"),
		"wal-bytes":       number(status.WAL, "bytes"),
		"wal-max":         number(status.WAL, "max_bytes"),
		"wal-last":        number(status.WAL, "last_sequence"),
		"wal-synced":      number(status.WAL, "synced_sequence"),
		"compaction-jobs": number(status.Drain, "jobs"),
		"l1-segments":     number(status.Drain, "l1_segments"),
		"points":          number(status.Writes, "points"),
		"waited":          number(status.Admission, "waited"),
		"waiting":         number(status.Admission, "waiting"),
		"refused-total":   refused,
	}
}

// checkSamples lets the page ask several times at once, as it does when a reader comes back to it again and again: no
// sample may be shown twice.
func (b *browser) checkSamples(s *server) {
	b.t.Helper()
	const samples = `Number(document.querySelector("#plots").dataset.samples)`
	b.await("some samples have come, each of them more than once", fmt.Sprintf(`(() => {
		for (let i = 0; i < 5; i++) document.dispatchEvent(new Event("visibilitychange"));
		return %s >= %v;
	})()`, samples, evaluate[int](b, samples)+3))
	shown := evaluate[int](b, samples)
	var history struct{ Samples []any }
	decode(b.t, s.must(b.t, http.MethodGet, "/api/history", "", http.StatusOK).body, &history)
	if shown > len(history.Samples) {
		b.t.Errorf("the page has %d samples, want no more than the %d that there are", shown, len(history.Samples))
	}
}

// checkKeyboard goes through the page with the tab key, and freezes it with the space bar.
func (b *browser) checkKeyboard() {
	b.t.Helper()
	b.do("begin at the top", chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	var reached []string
	for range 12 {
		b.do("press tab", chromedp.KeyEvent("\t"))
		reached = append(reached, evaluate[string](b, `((e) => {
			const outlined = getComputedStyle(e).outlineStyle !== "none" && e.getBoundingClientRect().left >= 0;
			return outlined ? e.id || e.dataset.minutes || e.className || e.textContent : "unseen " + e.outerHTML;
		})(document.activeElement)`))
	}
	want := []string{"skip", "hold", "1", "5", "15", "scroll", "Status as JSON", "Metrics", "Licence of uPlot"}
	from := max(0, slices.Index(reached, "skip"))
	if got := reached[from:min(len(reached), from+len(want))]; !slices.Equal(got, want) {
		b.t.Errorf("the tab key reaches %q, want %q", got, want)
	}
	b.do("freeze the page", chromedp.Focus(chromedp.CSS("#hold")), chromedp.KeyEvent(" "))
	b.await("the page is frozen", `document.querySelector("#hold").getAttribute("aria-pressed") === "true"`)
	b.do("let it go on", chromedp.KeyEvent(" "))
	b.await("the page goes on", `document.querySelector("#hold").getAttribute("aria-pressed") === "false"`)
}

// checkLooks holds the page to both schemes and to narrow screens: it isn't wider than they are, and no text has the
// colour of what is behind it.
func (b *browser) checkLooks() {
	b.t.Helper()
	papers := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 768, 1280} {
			b.do("change the width", chromedp.EmulateViewport(width, 800))
			b.prefer(scheme)
			b.await(fmt.Sprintf("%s at %d pixels: the page is not wider", scheme, width), fmt.Sprintf(
				`innerWidth === %d && document.documentElement.scrollWidth <= innerWidth`, width))
		}
		papers[scheme] = evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)
		if text := evaluate[string](b, `getComputedStyle(document.body).color`); text == papers[scheme] {
			b.t.Errorf("%s: text and background are both %s", scheme, text)
		}
	}
	if papers["light"] == papers["dark"] {
		b.t.Errorf("light and dark have the same background, %s", papers["dark"])
	}
}

// prefer sets the colour scheme that the browser asks for.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageLimit)
	defer cancel()
	params := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, params); err != nil {
		b.t.Fatalf("prefer %s: %v", scheme, err)
	}
}

// checkCauses holds the page to a text for every cause there is.
func (b *browser) checkCauses(s *server) {
	b.t.Helper()
	var status struct {
		Admission struct {
			Refused map[string]int64 `json:"refused"`
		} `json:"admission"`
	}
	decode(b.t, s.must(b.t, http.MethodGet, "/api/status", "", http.StatusOK).body, &status)
	script := s.must(b.t, http.MethodGet, "/web/verdict.js", "", http.StatusOK).body
	for cause := range status.Admission.Refused {
		if !strings.Contains(script, "  "+cause+": [") {
			b.t.Errorf("the page has no text for the cause %s", cause)
		}
	}
}

func (b *browser) checkComplaints() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		b.t.Errorf("the browser complains: %s", complaint)
	}
}

// checkLostServer stops the server under the page.
func (b *browser) checkLostServer(s *server) {
	b.t.Helper()
	s.stop(b.t)
	b.await("the page says that there is no answer", `
		document.body.dataset.state === "lost" && document.querySelector("#until").textContent.startsWith("Since ")`)
}
