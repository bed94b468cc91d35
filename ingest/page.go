package ingest

import (
	"mime"
	"net/http"
	"strings"
)

// page serves the status page to browsers, which ask for HTML, and the list of endpoints to all others.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) (reply, error) {
	w.Header().Set("Vary", "Accept")
	if !acceptsHTML(r.Header) {
		return h.index()
	}
	hurryAnswer(w)
	if !h.options.Page(w, r, "") {
		return notFound(w, r)
	}
	return reply{}, nil
}

// asset serves what the page consists of.
func (h *Handler) asset(w http.ResponseWriter, r *http.Request) (reply, error) {
	hurryAnswer(w)
	if !h.options.Page(w, r, strings.TrimPrefix(r.URL.Path, assetPrefix)) {
		return notFound(w, r)
	}
	return reply{}, nil
}

// assetPrefix is where the page looks for what it consists of.
const assetPrefix = "/web/"

// acceptsHTML tells whether a client names HTML among what it takes. Those that take anything, as curl does, get JSON.
func acceptsHTML(header http.Header) bool {
	for _, value := range header.Values("Accept") {
		for one := range strings.SplitSeq(value, ",") {
			kind, parameters, err := mime.ParseMediaType(one)
			quality, given := parameters["q"]
			if err == nil && kind == "text/html" && (!given || strings.Trim(quality, "0.") != "") {
				return true
			}
		}
	}
	return false
}
