package load

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"

	"lineweir/internal/uplot"
)

// findingsMax bounds how many findings of a verification are printed; the JSON has more.
const findingsMax = 10

// WriteText prints a report for a terminal, or several side by side, with what a reader should not miss at the end.
func WriteText(w io.Writer, reports ...*Report) error {
	if err := newTable(reports).writeText(w); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	for _, r := range reports {
		prefix := ""
		if len(reports) > 1 {
			prefix = r.Label + ": "
		}
		for _, line := range r.remarks() {
			if _, err := fmt.Fprintf(w, "%s%s\n", prefix, line); err != nil {
				return fmt.Errorf("print the report: %w", err)
			}
		}
	}
	return nil
}

// WriteMarkdown prints reports side by side for a document.
func WriteMarkdown(w io.Writer, reports ...*Report) error {
	if err := newTable(reports).writeMarkdown(w); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}

// remarks are the warnings of a run, and what its verification found.
func (r *Report) remarks() []string {
	var lines []string
	for _, warning := range r.Warnings {
		lines = append(lines, "warning: "+warning)
	}
	if r.Verified == nil {
		return lines
	}
	for i, gap := range r.Verified.Gaps {
		if i == findingsMax {
			lines = append(lines, fmt.Sprintf("missing: and %s more gaps",
				grouped(int64(len(r.Verified.Gaps)-i)+r.Verified.GapsLeftOut)))
			break
		}
		lines = append(lines, gap.text())
	}
	examples := r.Verified.Examples
	return append(lines, examples[:min(len(examples), findingsMax)]...)
}

func (g *Gap) text() string {
	return fmt.Sprintf("missing: lines %d to %d of batch %d: %s", g.First, g.Last, g.Batch, g.Point)
}

// The page and what it is made of. uPlot draws the plots; its licence is in each page.
//
//go:embed page
var pageFiles embed.FS

// pageData is what the template of the page shows.
type pageData struct {
	Title   string
	Table   *table
	Labels  []string
	Groups  []tableGroup
	Remarks []string
	Reports template.JS
	Style   template.CSS
	Library template.JS
	Script  template.JS
}

// WriteHTML writes one page that holds everything it shows.
func WriteHTML(w io.Writer, reports ...*Report) error {
	page, err := newPage(reports)
	if err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	if _, err := w.Write(page); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func newPage(reports []*Report) ([]byte, error) {
	t := newTable(reports)
	data := pageData{Title: "lineweir load", Labels: labels(reports), Groups: t.groups}
	for _, r := range reports {
		data.Title += " · " + r.Label
		for _, line := range r.remarks() {
			data.Remarks = append(data.Remarks, r.Label+": "+line)
		}
	}
	encoded, err := json.Marshal(reports) // which escapes <, > and &
	if err != nil {
		return nil, err
	}
	style, err1 := pageFiles.ReadFile("page/report.css")
	script, err2 := pageFiles.ReadFile("page/report.js")
	text, err3 := pageFiles.ReadFile("page/report.html")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	data.Reports = template.JS(encoded)
	data.Style = template.CSS(uplot.Style + string(style))
	data.Library = template.JS("/*\n" + uplot.Licence + "*/\n" + uplot.Script)
	data.Script = template.JS(script)
	parsed, err := template.New("page").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := parsed.Execute(&page, data); err != nil {
		return nil, err
	}
	return page.Bytes(), nil
}
