package main

import (
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lineweir/internal/config"
)

// TestTheStartWarnsBeyondLoopback says who can reach the server, and what follows from it.
func TestTheStartWarnsBeyondLoopback(t *testing.T) {
	const open, readable = "ANYBODY WHO REACHES THIS ADDRESS", "can be read on their way"
	for _, tc := range []struct {
		address        string
		authentication bool
		certificate    string
		want           string // "": no warning
	}{
		{"127.0.0.1", false, "", ""},
		{"127.8.8.8", false, "", ""},
		{"::1", false, "", ""},
		{"::ffff:127.0.0.1", false, "", ""},
		{"127.0.0.1", true, "", ""},
		{"0.0.0.0", false, "", open},
		{"::", false, "", open},
		{"192.0.2.1", false, "", open},
		{"192.0.2.1", false, "cert.pem", open}, // TLS keeps nobody out
		{"fe80::1", false, "", open},
		{"0.0.0.0", true, "", readable},
		{"0.0.0.0", true, "cert.pem", ""},
	} {
		core, logs := observer.New(zap.InfoLevel)
		loaded := &config.Loaded{}
		loaded.Config.HTTP.TLSCert = tc.certificate
		logStart(zap.New(core), loaded, &net.TCPAddr{IP: net.ParseIP(tc.address), Port: 8086}, tc.authentication)
		warnings := logs.FilterLevelExact(zap.WarnLevel).All()
		if tc.want == "" && len(warnings) > 0 || tc.want != "" && (len(warnings) != 1 ||
			!strings.Contains(warnings[0].Message, tc.want)) {
			t.Errorf("%s, authentication %v, certificate %q: got %v, want %q", tc.address, tc.authentication, tc.certificate,
				warnings, tc.want)
		}
	}
}
