package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// API is the form of a write request.
type API string

// The write APIs.
const (
	APIV1 API = "v1" // /write
	APIV2 API = "v2" // /api/v2/write
	APIV3 API = "v3" // /api/v3/write_lp
)

// Target is a server and how it is written to.
type Target struct {
	URL         string // with a path it is used as it is; without one, API and Database make it
	API         API
	Database    string // database or bucket
	Org         string // of version 2; most servers ignore it
	Token       string
	Gzip        bool
	Create      bool // CREATE DATABASE before the run, for InfluxDB 1
	AllowRemote bool
	Timeout     time.Duration // of one attempt
	Source      netip.Addr    // address of the first client, the others count on from it; zero: the system's choice
	OneSource   bool          // all clients have the address of the first, so that they are one client to the server
}

// validate returns the problems of a target that so many clients write to.
func (t *Target) validate(writers int) []error {
	var problems []error
	if err := t.validateURL(); err != nil {
		problems = append(problems, err)
	}
	if !slices.Contains([]API{APIV1, APIV2, APIV3}, t.API) {
		problems = append(problems, fmt.Errorf("the API is %q, must be v1, v2 or v3", t.API))
	}
	if t.Database == "" {
		problems = append(problems, errors.New("the database has no name"))
	}
	if t.Timeout <= 0 {
		problems = append(problems, fmt.Errorf("the timeout is %v", t.Timeout))
	}
	if t.OneSource && !t.Source.IsValid() {
		problems = append(problems, errors.New("one source for all writers needs its address"))
	}
	if t.Source.IsValid() {
		last := t.Source
		if t.Source.Is4() {
			last = t.sourceOf(writers)
		}
		if !t.Source.Is4() || t.Source.As4()[0] != 127 || last.Less(t.Source) {
			problems = append(problems, fmt.Errorf(
				"the source address is %s, must be one of 127.0.0.0/8 with %d above it", t.Source, writers))
		}
	}
	return problems
}

func (t *Target) validateURL() error {
	address, err := url.Parse(t.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return fmt.Errorf("the URL is %q, want one such as http://127.0.0.1:8086", t.URL)
	}
	if address.User != nil {
		return errors.New("the URL has credentials in it; they belong into the token")
	}
	host, err := netip.ParseAddr(address.Hostname())
	if err == nil && !t.AllowRemote && !host.Unmap().IsLoopback() {
		return fmt.Errorf("%s: %w", address.Hostname(), ErrRemote)
	}
	return nil // a name is judged by the address it leads to, when it is dialled
}

// base is the URL of the server itself.
func (t *Target) base() *url.URL {
	address, err := url.Parse(t.URL)
	if err != nil {
		panic("BUG: a target that was not validated: " + err.Error())
	}
	return &url.URL{Scheme: address.Scheme, Host: address.Host}
}

// writeURL is where bodies go.
func (t *Target) writeURL() string {
	address, err := url.Parse(t.URL)
	if err != nil {
		panic("BUG: a target that was not validated: " + err.Error())
	}
	if strings.Trim(address.Path, "/") != "" {
		return t.URL
	}
	path, query := "/write", url.Values{"db": {t.Database}}
	switch t.API {
	case APIV2:
		path, query = "/api/v2/write", url.Values{"bucket": {t.Database}, "org": {t.Org}, "precision": {"ns"}}
	case APIV3:
		path, query = "/api/v3/write_lp", url.Values{"db": {t.Database}, "precision": {"nanosecond"}}
	}
	written := t.base().JoinPath(path)
	written.RawQuery = query.Encode()
	return written.String()
}

// database is what the write URL names, wherever it comes from.
func (t *Target) database() string {
	address, err := url.Parse(t.writeURL())
	if err != nil {
		panic("BUG: a write URL that is none: " + err.Error())
	}
	query := address.Query()
	name := cmp.Or(query.Get("db"), query.Get("bucket"), t.Database)
	if policy := query.Get("rp"); policy != "" {
		name += "/" + policy
	}
	return name
}

// shownURL is the write URL without parameters that may be credentials.
func (t *Target) shownURL() string {
	address, err := url.Parse(t.writeURL())
	if err != nil {
		panic("BUG: a write URL that is none: " + err.Error())
	}
	shown := url.Values{}
	for name, values := range address.Query() {
		if slices.Contains([]string{"db", "rp", "bucket", "org", "precision", "consistency", "accept_partial"}, name) {
			shown[name] = values
		}
	}
	address.RawQuery = shown.Encode()
	return address.String()
}

// header is what every write carries.
func (t *Target) header() http.Header {
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "User-Agent": {"lineweir-load"}}
	if t.Gzip {
		header.Set("Content-Encoding", "gzip")
	}
	t.authorize(header)
	return header
}

func (t *Target) authorize(header http.Header) {
	if t.Token == "" {
		return
	}
	scheme := "Token "
	if t.API == APIV3 {
		scheme = "Bearer "
	}
	header.Set("Authorization", scheme+t.Token)
}

// transport makes the connections of one client. No proxy comes between it and the server, and names that lead
// away from this machine are refused where they are dialled.
func (t *Target) transport(source netip.Addr) *http.Transport {
	dialer := net.Dialer{Timeout: t.Timeout, Control: t.control}
	if source.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	return &http.Transport{
		DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 1,
		IdleConnTimeout: time.Minute,
	}
}

func (t *Target) control(_, address string, _ syscall.RawConn) error {
	remote, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: %w", address, err)
	}
	if !t.AllowRemote && !remote.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s: %w", address, ErrRemote)
	}
	return nil
}

// request makes a request to the server that is no write.
func (t *Target) request(ctx context.Context, method, path string, query url.Values) (*http.Request, error) {
	address := t.base().JoinPath(path)
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	t.authorize(request.Header)
	return request, nil
}
