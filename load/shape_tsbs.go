package load

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// tsbs makes the lines of the cpu measurement of the Time Series Benchmark Suite: hosts with 10 tags, whose 10 fields
// wander between 0 and 100.
type tsbs struct {
	heads  [][]byte // measurement and tags of each host
	levels [][len(tsbsFields)]int8
	random *rand.Rand
}

// tsbsHostBytes is what a host takes in memory: a head of at most 192 bytes, the slice that leads to it, and levels.
const tsbsHostBytes = 256

var tsbsFields = [...]string{
	"usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait",
	"usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice",
}

var (
	tsbsRegions = []string{
		"us-east-1", "us-west-1", "us-west-2", "eu-west-1", "eu-central-1",
		"ap-southeast-1", "ap-southeast-2", "ap-northeast-1", "sa-east-1",
	}
	tsbsSystems      = []string{"Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"}
	tsbsArchitecture = []string{"x64", "x86"}
	tsbsTeams        = []string{"SF", "NYC", "LON", "CHI"}
	tsbsEnvironments = []string{"production", "staging", "test"}
)

func newTSBS(hosts int, random *rand.Rand) *tsbs {
	t := &tsbs{heads: make([][]byte, hosts), levels: make([][len(tsbsFields)]int8, hosts), random: random}
	for host := range hosts {
		region := pick(random, tsbsRegions)
		t.heads[host] = fmt.Appendf(nil, "cpu,hostname=host_%d,region=%s,datacenter=%s%c,rack=%d,os=%s,arch=%s,"+
			"team=%s,service=%d,service_version=%d,service_environment=%s ",
			host, region, region, 'a'+random.IntN(3), random.IntN(100), pick(random, tsbsSystems),
			pick(random, tsbsArchitecture), pick(random, tsbsTeams), random.IntN(20), random.IntN(2),
			pick(random, tsbsEnvironments))
		for field := range tsbsFields {
			t.levels[host][field] = int8(random.IntN(101))
		}
	}
	return t
}

func pick(random *rand.Rand, values []string) string { return values[random.IntN(len(values))] }

func (t *tsbs) series() int { return len(t.heads) }

func (t *tsbs) append(dst []byte, host int) []byte {
	dst = append(dst, t.heads[host]...)
	steps := t.random.Uint64() // a few bits for each field
	for field, name := range tsbsFields {
		level := &t.levels[host][field]
		*level = min(max(*level+int8(steps%3)-1, 0), 100)
		steps /= 3
		if field > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name...), '=')
		dst = append(strconv.AppendInt(dst, int64(*level), 10), 'i')
	}
	return append(dst, ' ')
}
