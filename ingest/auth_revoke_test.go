package ingest

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/auth"
	"lineweir/internal/vfs"
)

// TestATokenThatIsRevokedWhileABodyComes begins requests with a good token, and revokes it before they are whole.
func TestATokenThatIsRevokedWhileABodyComes(t *testing.T) {
	for _, revoked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			file := auth.NewFile(vfs.OS, dir)
			secret, err := file.Create(t.Context(), "admin", auth.Rights{Admin: true})
			if err != nil {
				t.Fatal(err)
			}
			h := newTestHandler(t, func(o *Options) { o.Tokens = auth.NewVerifier(vfs.OS, dir, zap.NewNop()) })
			listener := newPipeListener()
			serve(t, h, listener)
			write, drop := listener.dial(t), listener.dial(t)
			begin := func(c *client, path, contentType, body string) {
				_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Token %s\r\nContent-Type: %s\r\n"+
					"Content-Length: %d\r\n\r\n%s", path, secret, contentType, len(body), body[:len(body)/2])
				if err != nil {
					t.Error(err)
				}
			}
			const lines, form = "m v=1i 1\nm v=2i 2", "q=CREATE+DATABASE+y"
			begin(write, "/write?db=d", "text/plain", lines)
			begin(drop, "/query", formType, form)
			synctest.Wait()
			if revoked {
				if _, err := file.Revoke(t.Context(), "admin"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			for c, rest := range map[*client]string{write: lines[len(lines)/2:], drop: form[len(form)/2:]} {
				response, body := exchange(t, c, c.answers, rest)
				if refused := response.StatusCode == http.StatusUnauthorized; refused != revoked {
					t.Errorf("revoked %v: got %d %s", revoked, response.StatusCode, body)
				}
			}
			if got := len(h.engine.Databases()); (got == 0) != revoked {
				t.Errorf("revoked %v: got %d databases", revoked, got)
			}
		})
	}
}
