package shard

import "slices"

// knownDefects are faults that the engine does not survive yet. The tests leave them out, and say so each time.
var knownDefects = []struct {
	call  string
	fates []fate
	why   string
}{
	{
		"segment manifest/ syncdir", []fate{eio, killed},
		"the next start takes a manifest for the manifest whose name is not durable, and trims the log by it",
	},
	{
		"segment manifest/ rename", []fate{late},
		"the next start takes a manifest for the manifest whose name is not durable, and trims the log by it",
	},
}

func knownDefect(p callPlan) (why string) {
	for _, d := range knownDefects {
		if d.call == kindOf(p.op) && slices.Contains(d.fates, p.fate) {
			return d.why
		}
	}
	return ""
}
