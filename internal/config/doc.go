// Package config turns what an operator wrote into one checked Config.
//
// The way of one setting: the table in table.go knows every key, its kind, its default and its range. Four layers
// are read in this order, a later one winning: the built-in defaults, the file (--config, else ./config.yaml where
// that exists), environment variables (LINEWEIR_ and the key's path in upper case, "_" for "."), and flags. Each
// layer is checked on its own, so a bad value is reported though a later layer overrides it. The layers are merged,
// zeros that mean "choose for me" are resolved from the machine (effective.go), and rules over several keys
// (rule.go) are checked last.
//
// Every problem is collected and reported at once, each with where it was written, because an operator who fixes
// one mistake per restart loses an outage's worth of time. Nothing here panics on what an operator wrote; a table
// that contradicts itself is a bug and does.
//
// A Config is a plain value: whoever gets one owns it, and nothing changes it afterwards. The package logs nothing;
// it hands warnings and the origin of the file back to its caller. It imports no other package of lineweir, and what
// a setting does is no business of it.
package config
