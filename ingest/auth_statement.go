package ingest

import (
	"fmt"
	"net/http"

	"github.com/influxdata/influxql"

	"lineweir/internal/auth"
)

// needStatements asks for the rights to all statements of a query, before any of them is executed, as InfluxDB 1 does:
//
//   - CREATE DATABASE takes the right to write that database. Agents that may write send it at their start, and their
//     first write would create the database anyway. With a retention it takes admin.
//   - SHOW takes the right to read the database; SHOW DATABASES takes any token, and shows what it is good for.
//   - Everything else takes admin: DROP, DELETE, retention policies, and whatever else InfluxQL knows.
//
// A text that is no InfluxQL is refused here, because nobody can say what an endpoint that understands it would do.
// Every q and db of r.Form counts, from the URL and from the body, whichever of them the endpoint takes.
func needStatements(rights *auth.Rights, r *http.Request) error {
	if rights.Admin {
		return nil
	}
	if r.MultipartForm != nil && len(r.MultipartForm.File) > 0 {
		return errNotAdmin // statements in a file, which are not looked into
	}
	databases := r.Form["db"]
	if len(databases) == 0 {
		databases = []string{""}
	}
	for _, text := range r.Form["q"] {
		for _, database := range databases {
			if err := needText(rights, text, database); err != nil {
				return err
			}
		}
	}
	return nil
}

// needText asks for the rights to the statements of one text.
func needText(rights *auth.Rights, text, database string) error {
	statements, err := parseStatements(text)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err := needStatement(rights, statement, database); err != nil {
			return err
		}
	}
	return nil
}

func needStatement(rights *auth.Rights, statement influxql.Statement, database string) error {
	if create, ok := statement.(*influxql.CreateDatabaseStatement); ok && create.RetentionPolicyDuration == nil {
		return allowNamed(rights, auth.Write, create.Name, "")
	}
	required, err := statement.RequiredPrivileges()
	if err != nil {
		return fmt.Errorf("find the rights that a statement needs: %w", err)
	}
	for _, privilege := range required {
		switch {
		case privilege.Admin || privilege.Privilege > influxql.ReadPrivilege:
			return errNotAdmin
		case privilege.Privilege == influxql.NoPrivileges:
			continue
		}
		name := privilege.Name
		if name == "" {
			name = database
		}
		if err := allowNamed(rights, auth.Read, name, ""); err != nil {
			return err
		}
	}
	return needSources(rights, statement)
}

// needSources asks for the right to read every database that a FROM names beside the statement's own.
func needSources(rights *auth.Rights, statement influxql.Statement) error {
	var refused error
	check := func(node influxql.Node) {
		source, ok := node.(*influxql.Measurement)
		if ok && source.Database != "" && refused == nil {
			refused = allowNamed(rights, auth.Read, source.Database, source.RetentionPolicy)
		}
	}
	influxql.WalkFunc(statement, check)
	if show, ok := statement.(*influxql.ShowMeasurementsStatement); ok {
		influxql.WalkFunc(show.Source, check) // WalkFunc leaves this one out
	}
	return refused
}

// allowNamed is allow for a database as a statement names it. One without a name is for the endpoint to refuse.
func allowNamed(rights *auth.Rights, action auth.Action, database, policy string) error {
	if database == "" {
		return nil
	}
	name, err := databaseName(database, policy)
	if err != nil {
		return err
	}
	return allow(rights, action, name)
}
