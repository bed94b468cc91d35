package ingest

import (
	"context"
	"errors"
	"net/http"

	"lineweir/internal/auth"
)

// Errors of authentication. Telegraf's v1 output drops what is answered 401 or 403, so these are for real verdicts
// only: a token that is missing, not known, or not good enough.
var (
	errNoToken = &requestError{
		status: http.StatusUnauthorized, reason: reasonUnauthorized,
		message: "a token is needed: as the password of Basic, in the header Authorization as Token or Bearer, " +
			"or as the parameter p of the URL",
	}
	errUnknownToken = &requestError{
		status: http.StatusUnauthorized, reason: reasonUnauthorized,
		message: "the token is not known; it may have been revoked",
	}
	errMalformedToken = &requestError{
		status: http.StatusUnauthorized, reason: reasonUnauthorized, message: auth.ErrMalformed.Error(),
	}
	errTokensUnreadable = &requestError{
		status: http.StatusServiceUnavailable, reason: reasonTokens,
		message: "the tokens can't be read, so nobody can be let in or refused; the log tells why",
	}
	errNotAdmin = &requestError{
		status: http.StatusForbidden, reason: reasonForbidden, message: "the token may not do this: it takes admin",
	}
)

// need says what a route asks of a client before its endpoint runs. nil asks nothing and reads no token.
type need func(rights *auth.Rights, r *http.Request) error

// needToken leaves the rest to the endpoint, which knows the database only when it has read the parameters.
func needToken(*auth.Rights, *http.Request) error { return nil }

// needRead asks for the right to read any database at all: what the route shows is of the server, not of a database.
func needRead(rights *auth.Rights, _ *http.Request) error {
	if !rights.AllowsSome(auth.Read) {
		return forbidden("the token may not read")
	}
	return nil
}

// needScan asks for the right to read the database that the URL names. A scan without one is refused by its endpoint,
// which reads the same parameter by the same rules.
func needScan(rights *auth.Rights, r *http.Request) error {
	database := r.URL.Query().Get("db")
	if database == "" {
		return needRead(rights, r)
	}
	return allow(rights, auth.Read, database)
}

func needAdmin(rights *auth.Rights, _ *http.Request) error {
	if !rights.Admin {
		return errNotAdmin
	}
	return nil
}

// allow returns the refusal of an action on a database, nil if the rights hold it.
func allow(rights *auth.Rights, action auth.Action, database string) error {
	if !rights.Allows(action, database) {
		return forbidden("the token may not %s the database %s", action, quote(database))
	}
	return nil
}

func forbidden(format string, arguments ...any) *requestError {
	refused := badRequest(format, arguments...)
	refused.status, refused.reason = http.StatusForbidden, reasonForbidden
	return refused
}

// visitor is who sends a request: what they may do, and the secret that says so.
type visitor struct {
	rights *auth.Rights
	secret string
}

type visitorKey struct{}

func visitorOf(ctx context.Context) visitor {
	v, _ := ctx.Value(visitorKey{}).(visitor)
	return v
}

// rightsOf returns what the client of a guarded route may do. What no guard has let in may do nothing.
func rightsOf(ctx context.Context) *auth.Rights {
	if v := visitorOf(ctx); v.rights != nil {
		return v.rights
	}
	return &auth.Rights{}
}

// rightsStill asks again what the client may do, now that its body has come, which may have taken its time: a token
// that was revoked meanwhile is good for nothing any more.
func (h *Handler) rightsStill(ctx context.Context) (*auth.Rights, error) {
	return h.verify(visitorOf(ctx).secret)
}

// guard runs an endpoint for those who may. They are asked before anything of a body is read.
func (h *Handler) guard(n need, e endpoint) endpoint {
	if n == nil {
		return e
	}
	return func(w http.ResponseWriter, r *http.Request) (reply, error) {
		v, err := h.recognize(r)
		if err == nil {
			err = n(v.rights, r)
		}
		if err != nil {
			return reply{}, err
		}
		return e(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, v)))
	}
}

// anyone is who sends a request where there are no tokens.
var anyone = auth.Anyone()

// recognize finds out who sends a request, and takes the secret out of its URL.
func (h *Handler) recognize(r *http.Request) (visitor, error) {
	secret, malformed := takeSecret(r)
	rights, err := h.verify(secret)
	if malformed && isUnauthorized(err) {
		err = errMalformedToken
	}
	return visitor{rights, secret}, err
}

func isUnauthorized(err error) bool {
	return errors.Is(err, errNoToken) || errors.Is(err, errUnknownToken)
}

// verify returns the rights of who sends a secret, "" for none.
func (h *Handler) verify(secret string) (*auth.Rights, error) {
	if h.options.Tokens == nil {
		return anyone, nil
	}
	rights, err := h.options.Tokens.Verify(secret)
	switch {
	case err == nil:
		return rights, nil
	case errors.Is(err, auth.ErrUnreadable):
		return nil, errTokensUnreadable
	case errors.Is(err, auth.ErrNoSecret):
		return nil, errNoToken
	default:
		return nil, errUnknownToken
	}
}
