package ingest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"lineweir/internal/auth"
)

func TestAClientIsItsTokenOrItsAddress(t *testing.T) {
	for _, test := range []struct{ name, address, token, want string }{
		{"token", "10.1.2.3:4567", "agent", "agent"},
		{"address", "10.1.2.3:4567", "", "10.1.2.3"},
		{"address of IPv6", "[fe80::1]:4567", "", "fe80::1"},
		{"no port", "pipe", "", "pipe"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/write", nil)
			r.RemoteAddr = test.address
			v := visitor{rights: &auth.Rights{Token: test.token}}
			r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
			if got := clientOf(r); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNeedsFollowTheBodies(t *testing.T) {
	var n needs
	if got := n.of(100); got != 100*needDefault {
		t.Errorf("%d before any body, want %d", got, 100*needDefault)
	}
	for range 200 {
		n.note(500, 100)
		n.note(0, 0)
	}
	if got := n.of(100); got < 495 || got > 500 {
		t.Errorf("%d after bodies of 5 bytes for each, want 500", got)
	}
}
