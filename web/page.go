package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"lineweir/internal/uplot"
)

//go:embed assets
var assets embed.FS

// index is the page; the other files are what it consists of.
const index = "index.html"

// contentTypes are stated, since a machine's own table of types may lack them or have others.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// policy lets the page load and ask its own server only. Nothing may frame it.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page serves the status page and its files. It is safe for concurrent use.
type Page struct {
	files map[string]file
}

// file is one file as it is served.
type file struct {
	content     []byte
	contentType string
	tag         string // of its content, quoted as an ETag is
}

// NewPage returns the page. It fails if a file is of a kind that nobody thought of.
func NewPage() (*Page, error) {
	p := &Page{files: map[string]file{}}
	names, err := fs.Glob(assets, "assets/*")
	if err != nil {
		return nil, fmt.Errorf("list the files of the status page: %w", err)
	}
	contents := map[string][]byte{
		"uplot.js": []byte(uplot.Script), "uplot.css": []byte(uplot.Style), "uplot.txt": []byte(uplot.Licence),
	}
	for _, name := range names {
		if contents[path.Base(name)], err = assets.ReadFile(name); err != nil {
			return nil, fmt.Errorf("read %s of the status page: %w", name, err)
		}
	}
	for name, content := range contents {
		if contentTypes[path.Ext(name)] == "" {
			return nil, fmt.Errorf("web: %s has a name of no known kind", name)
		}
		sum := sha256.Sum256(content)
		p.files[name] = file{content, contentTypes[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return p, nil
}

// Serve answers GET and HEAD for a file, for the page itself if name is empty. It returns false and has written nothing
// if there is no such file. A browser asks again each time, and is answered 304 if it has the file.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	if name == "" {
		name = index
	}
	found, ok := p.files[name]
	if !ok {
		return false
	}
	header := w.Header()
	header.Set("Content-Type", found.contentType)
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", found.tag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(found.content))
	return true
}
