package load

import (
	"math/rand/v2"
	"strconv"
)

// telegraf makes what an agent with its usual inputs sends of each host at each interval.
type telegraf struct {
	hosts   int
	seconds int64 // between steps, by which counters grow
	random  *rand.Rand
	steps   int64
}

// telegrafLine is one line of each host.
type telegrafLine struct {
	head   string // measurement and the tags before the host
	tail   string // the tags behind it: agents sort them
	fields []telegrafField
}

// telegrafField is a field and how it behaves.
type telegrafField struct {
	name string
	kind telegrafKind
	size int64 // greatest value of a gauge, growth per second of a counter
}

type telegrafKind uint8

const (
	percentGauge telegrafKind = iota // a float with all its digits
	integerGauge
	integerCounter
	truth
	text
)

func newTelegraf(series int, seconds int64, random *rand.Rand) *telegraf {
	return &telegraf{hosts: max(1, series/len(telegrafLines)), seconds: max(1, seconds), random: random}
}

func (t *telegraf) series() int { return t.hosts * len(telegrafLines) }

func (t *telegraf) append(dst []byte, series int) []byte {
	if series == 0 {
		t.steps++
	}
	line := &telegrafLines[series%len(telegrafLines)]
	dst = append(append(dst, line.head...), ",host=web-"...)
	dst = strconv.AppendInt(dst, int64(series/len(telegrafLines)), 10)
	dst = append(append(append(dst, ".example.net"...), line.tail...), ' ')
	for i := range line.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, line.fields[i].name...), '=')
		dst = t.appendValue(dst, &line.fields[i])
	}
	return append(dst, ' ')
}

func (t *telegraf) appendValue(dst []byte, field *telegrafField) []byte {
	switch field.kind {
	case percentGauge:
		return strconv.AppendFloat(dst, t.random.Float64()*float64(field.size), 'f', -1, 64)
	case integerGauge:
		return append(strconv.AppendInt(dst, field.size/2+t.random.Int64N(field.size/2+1), 10), 'i')
	case integerCounter:
		grown := t.steps*t.seconds*field.size + t.random.Int64N(field.size+1)
		return append(strconv.AppendInt(dst, grown, 10), 'i')
	case truth:
		return strconv.AppendBool(dst, t.random.IntN(1000) == 0)
	default:
		minutes := t.steps * t.seconds / 60
		dst = append(strconv.AppendInt(append(dst, '"'), minutes/1440, 10), " days, "...)
		dst = append(strconv.AppendInt(dst, minutes/60%24, 10), ':')
		return append(strconv.AppendInt(dst, minutes%60, 10), '"')
	}
}

var telegrafLines = []telegrafLine{
	{"cpu,cpu=cpu-total", "", telegrafCPU}, {"cpu,cpu=cpu0", "", telegrafCPU}, {"cpu,cpu=cpu1", "", telegrafCPU},
	{"mem", "", telegrafMemory},
	{"swap", "", gauges(1<<33, "free", "used", "total", "in", "out")},
	{"disk,device=vda1,fstype=ext4", ",mode=rw,path=/", telegrafDisk},
	{"disk,device=vdb1,fstype=xfs", `,mode=rw,path=/srv/a\ b`, telegrafDisk},
	{"diskio", ",name=vda", telegrafDiskIO},
	{"net", ",interface=eth0", telegrafNet}, {"net", ",interface=eth1", telegrafNet},
	{"processes", "", gauges(400, "blocked", "idle", "running", "sleeping", "stopped", "total", "zombies")},
	{"system", "", telegrafSystem},
}

func gauges(size int64, names ...string) []telegrafField {
	var fields []telegrafField
	for _, name := range names {
		fields = append(fields, telegrafField{name, integerGauge, size})
	}
	return fields
}

var telegrafCPU = []telegrafField{
	{"usage_guest", percentGauge, 1}, {"usage_idle", percentGauge, 100}, {"usage_iowait", percentGauge, 5},
	{"usage_irq", percentGauge, 1}, {"usage_nice", percentGauge, 1}, {"usage_softirq", percentGauge, 2},
	{"usage_steal", percentGauge, 3}, {"usage_system", percentGauge, 20}, {"usage_user", percentGauge, 80},
}

var telegrafMemory = append(gauges(1<<34, "active", "available", "buffered", "cached", "dirty", "free", "inactive",
	"mapped", "shared", "slab", "total", "used", "write_back"),
	telegrafField{"available_percent", percentGauge, 100}, telegrafField{"used_percent", percentGauge, 100})

var telegrafDisk = append(gauges(1<<38, "free", "total", "used"),
	telegrafField{"inodes_free", integerGauge, 1 << 24}, telegrafField{"inodes_total", integerGauge, 1 << 24},
	telegrafField{"inodes_used", integerGauge, 1 << 20}, telegrafField{"used_percent", percentGauge, 100})

var telegrafDiskIO = []telegrafField{
	{"io_time", integerCounter, 200}, {"iops_in_progress", integerGauge, 8}, {"read_bytes", integerCounter, 1 << 20},
	{"read_time", integerCounter, 50}, {"reads", integerCounter, 40}, {"write_bytes", integerCounter, 1 << 22},
	{"write_time", integerCounter, 90}, {"writes", integerCounter, 120},
}

var telegrafNet = []telegrafField{
	{"bytes_recv", integerCounter, 1 << 21}, {"bytes_sent", integerCounter, 1 << 20}, {"drop_in", integerCounter, 1},
	{"drop_out", integerCounter, 1}, {"err_in", integerCounter, 1}, {"err_out", integerCounter, 1},
	{"packets_recv", integerCounter, 2000}, {"packets_sent", integerCounter, 1500},
}

var telegrafSystem = []telegrafField{
	{"load1", percentGauge, 4}, {"load15", percentGauge, 4}, {"load5", percentGauge, 4}, {"n_cpus", integerGauge, 2},
	{"n_users", integerGauge, 3}, {"reboot_required", truth, 0}, {"uptime", integerCounter, 1},
	{"uptime_format", text, 0},
}
