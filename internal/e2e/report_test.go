package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestReportPage opens pages of lineweir load in a browser: of one run, of several, and of one that was interrupted
// before it began. They have plots, ask for nothing, and no script fails.
func TestReportPage(t *testing.T) {
	outside(t)
	require(t, "chromium", found("chromium"))
	s := start(t, t.TempDir())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nothing.json"), []byte(`{"format":1,"label":"nothing"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	runLoad(t, dir, "run", "--url", "http://"+s.address, "--db", "page", "--series", "100", "--batch", "50", "--rate", "2000",
		"--duration", "3s", "--label", "one", "--json", "one.json", "--html", "one.html")
	runLoad(t, dir, "report", "one.json", "nothing.json", "--html", "several.html")
	b := startBrowser(t)
	for _, page := range []struct {
		name     string
		headings string
	}{{"one.html", "one"}, {"several.html", "one nothing"}} {
		b.open(page.name, "file://"+filepath.Join(dir, page.name))
		b.await(page.name+" has a section for each run, and plots",
			`[...document.querySelectorAll("h2")].map((e) => e.textContent).join(" ") === "`+page.headings+`" &&
			document.querySelectorAll("canvas").length >= 3 && document.querySelector(".wide table").textContent.includes("204")`)
		for _, width := range []int64{360, 1280} {
			b.do("change the width", chromedp.EmulateViewport(width, 800))
			b.await(page.name+" is not wider than the screen", `document.documentElement.scrollWidth <= innerWidth`)
		}
	}
	b.checkComplaints()
}

// runLoad runs lineweir load, which has to succeed.
func runLoad(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	path, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"load"}, arguments...)...)
	cmd.Dir, cmd.Env = dir, foreignEnvironment()
	if code := startProcess(t, cmd).wait(t, 2*time.Minute); code != 0 {
		t.Fatalf("load %s exited with status %d", strings.Join(arguments, " "), code)
	}
}
