package e2e

import (
	"path/filepath"
	"sync"
	"testing"
)

// goClients builds the program of testdata/clients/go once, and returns its path.
var goClients = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "goclients")
	return path, fetch(nil, "go", "build", "-C",
		filepath.Join(repository, "testdata", "clients", "go"), "-mod=readonly", "-o", path, ".")
})

// goDrivers are the client libraries in Go.
var goDrivers = []driver{
	{
		name: "influxdb1-client", command: []string{"--client", "v1"},
		newline: "\n", uints: true, wideInts: true, oddNames: true, gzip: true, ping: true, basic: true, statement: true,
		partly:       `"partial write: unable to parse 'odd f=.*: line 2: field type conflict: .*; dropped=1"`,
		unauthorized: `"error":"the token is not known`,
		forbidden:    `"error":"the token may not write the database`,
		refused:      `"error":"refused for now: .*"cause":"l0_full"`,
		noMicros:     `time outside range: timestamp .* in precision us`, // it sends nanoseconds and calls them us
	},
	{
		name: "influxdb-client-go", command: []string{"--client", "v2"},
		newline: `\n`, uints: true, wideInts: true, oddNames: true, gzip: true, ping: true, basic: true, token: true,
		statuses: true, waits: true, retries: true, obeys: true,
		partly:       `^invalid: 1 of 3 lines refused, the others are stored; line \d: field type conflict: `,
		unauthorized: `^unauthorized: the token is not known`,
		forbidden:    `^forbidden: the token may not write the database`,
		refused:      `^unavailable: refused for now: `,
		unanswered:   `^not found: there is no "/api/v2/query"`,
	},
	{
		name: "influxdb3-go", command: []string{"--client", "v3"},
		newline: `\n`, uints: true, wideInts: true, oddNames: true, gzip: true, ping: true, token: true,
		statuses: true, waits: true,
		partly:       `^invalid: 1 of 3 lines refused, the others are stored; line 2: field type conflict: `,
		unauthorized: `^unauthorized: the token is not known`,
		forbidden:    `^forbidden: the token may not write the database`,
		refused:      `^unavailable: refused for now: `,
		unanswered:   `^flight do get: rpc error`,
	},
	{
		name: "influxdb3-go with its own API", command: []string{"--client", "v3native"},
		newline: `\n`, uints: true, wideInts: true, oddNames: true, gzip: true, ping: true, token: true,
		statuses: true, waits: true, lines: true,
		partly:       `^line protocol parsing error: 1 of 3 lines refused, the others are stored:\n\tline 2: field type conflict: `,
		unauthorized: `^the token is not known`,
		forbidden:    `^the token may not write the database`,
		refused:      `^refused for now: `,
		unanswered:   `^flight do get: rpc error`,
	},
}

func TestGoClients(t *testing.T) {
	outside(t)
	path, err := goClients()
	require(t, "clients", err)
	for _, d := range goDrivers {
		d.command = append([]string{path}, d.command...)
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			d.exercise(t)
		})
	}
}
