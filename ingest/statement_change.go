package ingest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/influxdata/influxql"

	"lineweir/shard"
)

// defaultPolicies are the names of the retention policy that the database itself stands for.
var defaultPolicies = []string{"", "autogen", "default"}

// createDatabase creates a database. WITH DURATION gives it a retention; a policy that WITH NAME gives another name
// than autogen is a database "db/name" beside it, with the same retention, since writes may name it or not.
// Replication and the length of shards mean nothing here.
func (q *queryRun) createDatabase(s *influxql.CreateDatabaseStatement) error {
	name, err := databaseName(s.Name, "")
	if err != nil {
		return err
	}
	policy, err := policyDatabase(name, s.RetentionPolicyName)
	if err != nil {
		return err
	}
	for _, name := range slices.Compact([]string{name, policy}) {
		if s.RetentionPolicyDuration == nil {
			err = q.engine.CreateDatabase(q.ctx, name)
		} else if err = checkRetention(*s.RetentionPolicyDuration); err == nil {
			err = q.engine.CreateRetention(q.ctx, name, *s.RetentionPolicyDuration)
		}
		if errors.Is(err, shard.ErrRetentionConflict) {
			return badRequest("retention policy conflicts with an existing policy")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// policyDatabase is the database that a retention policy of another one stands for.
func policyDatabase(database, policy string) (string, error) {
	if slices.Contains(defaultPolicies, policy) {
		return database, nil
	}
	return databaseName(database, policy)
}

// checkRetention refuses what InfluxDB refuses. 0 is for ever.
func checkRetention(kept time.Duration) error {
	if kept != 0 && kept < shard.RetentionMin {
		return badRequest("retention policy duration must be at least %s", shard.RetentionMin)
	}
	return nil
}

func (q *queryRun) dropDatabase(s *influxql.DropDatabaseStatement) error {
	name, err := databaseName(s.Name, "")
	if err != nil {
		return err
	}
	return q.engine.DropDatabase(q.ctx, name)
}

func (q *queryRun) dropMeasurement(s *influxql.DropMeasurementStatement) error {
	database, err := q.named("")
	if err != nil {
		return err
	}
	return databaseError(q.engine.DropMeasurement(q.ctx, database, s.Name), database)
}

func (q *queryRun) createPolicy(s *influxql.CreateRetentionPolicyStatement) error {
	database, err := q.policyOf(s.Database, s.Name, s.Default)
	if err != nil {
		return err
	}
	if err = checkRetention(s.Duration); err != nil {
		return err
	}
	err = q.engine.CreateRetention(q.ctx, database, s.Duration)
	if errors.Is(err, shard.ErrRetentionConflict) {
		return badRequest("retention policy already exists")
	}
	return err
}

func (q *queryRun) alterPolicy(s *influxql.AlterRetentionPolicyStatement) error {
	database, err := q.policyOf(s.Database, s.Name, s.Default)
	if err != nil || s.Duration == nil {
		return err
	}
	if err = checkRetention(*s.Duration); err != nil {
		return err
	}
	err = q.engine.AlterRetention(q.ctx, database, *s.Duration)
	if errors.Is(err, shard.ErrDatabaseNotFound) {
		return badRequest("retention policy not found: %s", sanitize(s.Name, quoteBytesMax))
	}
	return err
}

// dropPolicy drops a policy with its points and its retention, as InfluxDB does, also without an error where there is
// no such policy or database. Autogen is the database itself, which stays, empty and with the configured retention;
// its other policies are not concerned.
func (q *queryRun) dropPolicy(s *influxql.DropRetentionPolicyStatement) error {
	whole, err := q.named(s.Database)
	if err != nil || s.Name == "" {
		return err
	}
	name, err := policyDatabase(whole, s.Name)
	if err != nil || !slices.Contains(q.engine.Databases(), name) {
		return err
	}
	if err = q.engine.DropPolicy(q.ctx, name); err != nil || name != whole {
		return err
	}
	return q.engine.CreateDatabase(q.ctx, whole)
}

// policyOf returns the database that a policy of an existing one stands for. Writes that name no policy go to the
// database itself, so no other policy can be made the default.
func (q *queryRun) policyOf(database, policy string, isDefault bool) (string, error) {
	whole, err := q.named(database)
	if err != nil {
		return "", err
	}
	if len(q.family(whole)) == 0 {
		return "", databaseError(shard.ErrDatabaseNotFound, whole)
	}
	name, err := policyDatabase(whole, policy)
	if err == nil && isDefault && name != whole {
		err = badRequest("DEFAULT is not supported for policy %s: what is written without rp belongs to autogen, whose "+
			"retention ALTER RETENTION POLICY autogen changes", quote(policy))
	}
	return name, err
}

// named returns the database that a statement names, or else the query.
func (q *queryRun) named(database string) (string, error) {
	database = cmp.Or(database, q.database)
	if database == "" {
		return "", badRequest("database name required")
	}
	return databaseName(database, "")
}

// databaseError makes an error of the statement of a database that does not exist.
func databaseError(err error, database string) error {
	if errors.Is(err, shard.ErrDatabaseNotFound) {
		return badRequest("database not found: %s", sanitize(database, quoteBytesMax))
	}
	return err
}
