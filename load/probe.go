package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// probeTimeout bounds a question to the server before the run.
const probeTimeout = 10 * time.Second

// probe asks the server who it is. Any answer will do; none is an error.
func probe(ctx context.Context, t *Target) (string, error) {
	transport := t.transport(netip.Addr{})
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ping, err := ask(ctx, t, transport, http.MethodGet, "/ping", nil)
	if errors.Is(err, ErrRemote) {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	version := ping.header.Get("X-Influxdb-Version")
	if name := ping.header.Get("X-Influxdb-Build"); name != "" && version != "" {
		return name + " " + version, nil
	}
	var health struct{ Name, Version string }
	answer, err := ask(ctx, t, transport, http.MethodGet, "/health", nil)
	if err == nil && json.Unmarshal(answer.text, &health) == nil && health.Name != "" {
		return strings.TrimSpace(health.Name + " " + health.Version), nil
	}
	return cmp.Or(version, ping.header.Get("Server"), "unnamed server"), nil
}

// createDatabase asks an InfluxDB 1 for the database.
func createDatabase(ctx context.Context, t *Target) error {
	transport := t.transport(netip.Addr{})
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	name := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(t.Database)
	query := url.Values{"q": {`CREATE DATABASE "` + name + `"`}}
	answer, err := ask(ctx, t, transport, http.MethodPost, "/query", query)
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	if answer.status >= http.StatusBadRequest {
		return fmt.Errorf("create the database: the server answered %d: %s", answer.status, causeOf(answer.text))
	}
	return nil
}

// said is an answer that was read to its end.
type said struct {
	status int
	header http.Header
	text   []byte
}

// ask makes one request and reads its answer, whatever its status.
func ask(
	ctx context.Context, t *Target, transport *http.Transport, method, path string, query url.Values,
) (said, error) {
	request, err := t.request(ctx, method, path, query)
	if err != nil {
		return said{}, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return said{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return said{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return said{response.StatusCode, response.Header, text}, nil
}
