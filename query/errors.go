package query

import (
	"fmt"
	"net/http"
)

// ParameterError says what is wrong with one parameter of a request.
type ParameterError struct {
	Name   string
	Reason string
}

func (e *ParameterError) Error() string { return fmt.Sprintf("parameter %q %s", e.Name, e.Reason) }

// StatusCode is the HTTP status that the error asks for.
func (e *ParameterError) StatusCode() int { return http.StatusBadRequest }
