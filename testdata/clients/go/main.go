// Command clients drives a client library of InfluxDB for the end-to-end tests, and prints what the library presents to
// its user: one JSON object per line for each thing done. It exits 0 also when the library returned an error.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

// options are the flags. What is empty is not done, or not given to the library.
type options struct {
	client, url, database, token, user, password, precision, ca string
	points                                                      string // path of a file of points to write
	query                                                       string
	gzip, ping, retry                                           bool
}

// outcome is what a library presents of one call.
type outcome struct {
	Did        string   `json:"did"`
	Version    string   `json:"version,omitempty"`
	Values     []string `json:"values,omitempty"` // the cells of a query's rows
	Error      string   `json:"error,omitempty"`
	Status     int      `json:"status,omitempty"`
	Code       string   `json:"code,omitempty"`
	RetryAfter int      `json:"retry_after,omitempty"`
	Lines      []int    `json:"lines,omitempty"` // numbers of refused lines
}

// library is what the tests ask of a client library.
type library interface {
	ping(context.Context) outcome
	write(context.Context, []point) outcome
	query(context.Context, string) outcome
	close()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	flag.StringVar(&o.client, "client", "", "v1, v2, v3 (by the API of version 2) or v3native")
	flag.StringVar(&o.url, "url", "", "of the server")
	flag.StringVar(&o.database, "database", "", "")
	flag.StringVar(&o.token, "token", "", "")
	flag.StringVar(&o.user, "user", "", "")
	flag.StringVar(&o.password, "password", "", "")
	flag.StringVar(&o.precision, "precision", "ns", "ns, us, ms or s")
	flag.StringVar(&o.ca, "ca", "", "path of the certificate to trust, PEM")
	flag.StringVar(&o.points, "points", "", "path of the points to write")
	flag.StringVar(&o.query, "query", "", "statement")
	flag.BoolVar(&o.gzip, "gzip", false, "")
	flag.BoolVar(&o.ping, "ping", false, "")
	flag.BoolVar(&o.retry, "retry", false, "let the library retry, until standard input ends")
	flag.Parse()
	client, err := open(o)
	if err != nil {
		return err
	}
	defer client.close()
	return do(context.Background(), client, o)
}

func open(o options) (library, error) {
	trust, err := trusted(o.ca)
	if err != nil {
		return nil, err
	}
	switch o.client {
	case "v1":
		return openV1(o, trust)
	case "v2":
		return openV2(o, trust)
	case "v3", "v3native":
		return openV3(o)
	default:
		return nil, fmt.Errorf("there is no client %q", o.client)
	}
}

// trusted returns nil, which trusts what the machine does, without a path.
func trusted(path string) (*tls.Config, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return &tls.Config{RootCAs: pool}, nil
}

func do(ctx context.Context, client library, o options) error {
	if o.ping {
		show(client.ping(ctx))
	}
	if o.points != "" {
		points, err := readPoints(o.points)
		if err != nil {
			return err
		}
		show(client.write(ctx, points))
	}
	if o.query != "" {
		show(client.query(ctx, o.query))
	}
	return nil
}

func show(result outcome) {
	text, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// failed is what a library shows that shows an error as text alone.
func failed(did string, err error) outcome {
	result := outcome{Did: did}
	if err != nil {
		result.Error = strings.TrimSpace(err.Error())
	}
	return result
}
