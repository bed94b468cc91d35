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

type rightsKey struct{}

// rightsOf returns what the client of a guarded route may do. What no guard has let in may do nothing.
func rightsOf(ctx context.Context) *auth.Rights {
	if rights, ok := ctx.Value(rightsKey{}).(*auth.Rights); ok {
		return rights
	}
	return &auth.Rights{}
}

// guard runs an endpoint for those who may. They are asked before anything of a body is read.
func (h *Handler) guard(n need, e endpoint) endpoint {
	if n == nil {
		return e
	}
	return func(w http.ResponseWriter, r *http.Request) (reply, error) {
		rights, err := h.rights(r)
		if err == nil {
			err = n(rights, r)
		}
		if err != nil {
			return reply{}, err
		}
		return e(w, r.WithContext(context.WithValue(r.Context(), rightsKey{}, rights)))
	}
}

// anyone is who sends a request where there are no tokens.
var anyone = auth.Anyone()

// rights finds out who sends a request.
func (h *Handler) rights(r *http.Request) (*auth.Rights, error) {
	secret, malformed := takeSecret(r)
	if h.options.Tokens == nil {
		return anyone, nil
	}
	rights, err := h.options.Tokens.Verify(secret)
	switch {
	case err == nil:
		return rights, nil
	case errors.Is(err, auth.ErrUnreadable):
		return nil, errTokensUnreadable
	case malformed:
		return nil, errMalformedToken
	case errors.Is(err, auth.ErrNoSecret):
		return nil, errNoToken
	default:
		return nil, errUnknownToken
	}
}
