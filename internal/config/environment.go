package config

import (
	"fmt"
	"slices"
	"strings"
)

const environmentPrefix = "LINEWEIR_"

// foreignVariables are no settings, and servers may inherit them: one tells tests which of them may not be skipped, the
// other is what a command shows to a server.
var foreignVariables = []string{environmentPrefix + "REQUIRE", environmentPrefix + "TOKEN"}

// readEnvironment takes the settings out of environment ("NAME=value") and returns a warning for each variable that
// looks like a setting and is none. Names come from the table: LINEWEIR_PAGE_CACHE_CAPACITY can't be split by rule.
func readEnvironment(environment []string, found *problems) (layer, []string) {
	known := environmentKeys()
	values := make(layer)
	var warnings []string
	for _, variable := range environment {
		name, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, environmentPrefix) || slices.Contains(foreignVariables, name) {
			continue
		}
		setting, ok := known[name]
		if !ok {
			warnings = append(warnings, fmt.Sprintf("the environment variable %s sets nothing", name))
			continue
		}
		values.set(setting, text, "environment variable "+name, found)
	}
	slices.Sort(warnings)
	return values, warnings
}

// environmentKeys maps the name of each variable to its key.
func environmentKeys() map[string]*key {
	known := make(map[string]*key, len(keys))
	for i := range keys {
		known[keys[i].environment()] = &keys[i]
	}
	return known
}
