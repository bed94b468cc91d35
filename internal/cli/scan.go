package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// refusalMaxBytes bounds what is read of an answer that is an error.
const refusalMaxBytes = 64 << 10

type scanCommand struct {
	Dir         string   `arg:"" optional:"" name:"dir" help:"A data directory that no server uses, instead of a server."`
	URL         string   `default:"http://127.0.0.1:8086" help:"The server."`
	Token       string   `env:"LINEWEIR_TOKEN" placeholder:"TOKEN" help:"Token with the right to read the database."`
	DB          string   `name:"db" required:"" placeholder:"NAME" help:"Database, or database/retention-policy."`
	Measurement string   `required:"" placeholder:"NAME" help:"Measurement."`
	Start       string   `placeholder:"TIME" help:"Earliest time, inclusive: nanoseconds since 1970, or RFC 3339."`
	Stop        string   `placeholder:"TIME" help:"Latest time, exclusive."`
	Tag         []string `sep:"none" placeholder:"KEY=VALUE" help:"Only series with this tag; can be repeated."`
	Field       []string `sep:"none" placeholder:"NAME" help:"Only this field; can be repeated."`
	Limit       uint64   `placeholder:"ROWS" help:"At most so many rows; 0 for all."`
	Format      string   `enum:"lp,csv,jsonl,count" default:"lp" help:"How rows are written: ${enum}."`
}

func (scanCommand) Help() string {
	return `Rows are sorted by series, then by time. The format lp is line protocol that can be written back as it is.

Examples:

	lineweir scan --db telegraf --measurement cpu --tag host=a --start 2026-01-01T00:00:00Z
	lineweir scan --db telegraf --measurement cpu --field usage_idle --format csv > idle.csv
	lineweir scan --db telegraf --measurement cpu --format count
	lineweir scan ./data --db telegraf --measurement cpu

The last one reads a directory, and changes nothing in it. It needs memory for what the log holds.`
}

func (c scanCommand) Run(in *invocation) error {
	if c.Dir != "" {
		return c.runOffline(in)
	}
	address, err := c.address()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(in.ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	if c.Token != "" {
		request.Header.Set("Authorization", "Token "+c.Token)
	}
	// One request is all there will be, so no connection is kept for a next one.
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("scan: the server answered %s: %s", response.Status, refusal(response.Body))
	}
	if _, err := io.Copy(in.stdout, response.Body); err != nil {
		return fmt.Errorf("scan: the answer is incomplete: %w", err)
	}
	return nil
}

// address builds the URL of the scan.
func (c scanCommand) address() (string, error) {
	server, err := url.Parse(c.URL)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return "", fmt.Errorf("scan: --url %s: want a URL such as http://127.0.0.1:8086", c.URL)
	}
	server = server.JoinPath("api", "scan")
	server.RawQuery = c.parameters().Encode()
	return server.String(), nil
}

func (c scanCommand) runOffline(in *invocation) error {
	out := bufio.NewWriter(in.stdout)
	if err := in.commands.Scan(in.ctx, c.Dir, c.parameters(), out); err != nil {
		_ = out.Flush() // rows that could be read are worth having, and the first error is the one to tell
		return err
	}
	return out.Flush()
}

// parameters are those of /api/scan. What wasn't given is left out, so that the server's defaults hold.
func (c scanCommand) parameters() url.Values {
	query := url.Values{"db": {c.DB}, "measurement": {c.Measurement}, "format": {c.Format}}
	for name, value := range map[string]string{"start": c.Start, "stop": c.Stop} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if c.Limit > 0 {
		query.Set("limit", strconv.FormatUint(c.Limit, 10))
	}
	for _, tag := range c.Tag {
		query.Add("tag", tag)
	}
	for _, field := range c.Field {
		query.Add("field", field)
	}
	return query
}

// refusal finds the sentence in an answer that is an error: JSON with "error" or "message", or plain text.
func refusal(body io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(body, refusalMaxBytes))
	if err != nil && len(text) == 0 {
		return err.Error()
	}
	var answer struct{ Error, Message string }
	if json.Unmarshal(text, &answer) == nil {
		if answer.Error != "" {
			return answer.Error
		}
		if answer.Message != "" {
			return answer.Message
		}
	}
	return strings.TrimSpace(string(text))
}
