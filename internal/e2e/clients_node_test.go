package e2e

import (
	"path/filepath"
	"sync"
	"testing"
)

// nodeClients installs what testdata/clients/node pins, once, and returns the path of its program.
var nodeClients = sync.OnceValues(func() (string, error) {
	dir, err := installNode("clients", filepath.Join(repository, "testdata", "clients", "node"))
	return filepath.Join(dir, "clients.mjs"), err
})

// nodeDrivers are the client libraries in JavaScript.
var nodeDrivers = []driver{
	{
		name: "@influxdata/influxdb-client", command: []string{"--client", "v2"},
		newline: "\n", uints: true, oddNames: true, gzip: true, token: true,
		statuses: true, waits: true, retries: true,
		partly:       `^1 of 3 lines refused, the others are stored; line 2: field type conflict: `,
		unauthorized: `^the token is not known`,
		forbidden:    `^the token may not write the database`,
		refused:      `^refused for now: `,
		unanswered:   `^there is no "/api/v2/query"`,
	},
	{
		name: "influx", command: []string{"--client", "v1"},
		newline: "\n", ping: true, basic: true, statement: true,
		partly:       `^A 400 Bad Request error occurred: \{"error":"partial write: unable to parse .* line 2: .*; dropped=1"`,
		unauthorized: `^A 401 Unauthorized error occurred: \{"error":"the token is not known`,
		forbidden:    `^A 403 Forbidden error occurred: \{"error":"the token may not write the database`,
		refused:      `^Service Unavailable$`,
	},
}

func TestNodeClients(t *testing.T) {
	outside(t)
	program, err := nodeClients()
	require(t, "clients", err)
	for _, d := range nodeDrivers {
		d.command = append([]string{"node", program}, d.command...)
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			d.exercise(t)
		})
	}
}
