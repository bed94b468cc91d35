package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestAStopEndsInTime gives up what does not return, and nothing that does.
func TestAStopEndsInTime(t *testing.T) {
	failed := errors.New("it failed")
	for _, tc := range []struct {
		name  string
		takes time.Duration // from the end of the context on
		want  error         // nil: that it was given up
	}{
		{"it ends before it is told to", -time.Second, failed},
		{"it ends in time", 29 * time.Second, failed},
		{"it hangs", time.Hour, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err := endWithin(ctx, 30*time.Second, func() error {
					time.Sleep(time.Minute + tc.takes)
					return failed
				})
				took, want := time.Since(began), time.Minute+min(tc.takes, 30*time.Second)
				if took != want || errors.Is(err, failed) != (tc.want != nil) || err == nil {
					t.Errorf("it took %s and returned %v, want %s and %v", took, err, want, tc.want)
				}
				time.Sleep(2 * time.Hour) // until it has ended in any case
			})
		})
	}
}
