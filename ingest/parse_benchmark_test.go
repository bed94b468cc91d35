package ingest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lineweir/shard"
)

var benchmarkTime = time.Unix(1_451_606_400, 0).UTC()

// tsbsBody makes lines of the Time Series Benchmark Suite, devops, cpu only: 10 tags that are not sorted, 10 integers.
func tsbsBody(lines int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	fields := []string{"user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"}
	var body []byte
	for i := range lines {
		host := i % 1000
		body = fmt.Appendf(body, "cpu,hostname=host_%d,region=eu-central-1,datacenter=eu-central-1a,rack=%d,os=Ubuntu15.10,"+
			"arch=x86,team=SF,service=%d,service_version=1,service_environment=test", host, host%100, host%20)
		for j, field := range fields {
			body = fmt.Appendf(body, "%cusage_%s=%di", " ,"[min(j, 1)], field, random.IntN(100))
		}
		body = fmt.Appendf(body, " %d\n", benchmarkTime.Add(time.Duration(i/1000)*10*time.Second).UnixNano())
	}
	return body
}

// telegrafBody makes what the usual inputs of Telegraf send: six measurements in turn, 2 to 5 sorted tags, 5 to 20
// fields.
func telegrafBody(lines int) []byte {
	random := rand.New(rand.NewPCG(3, 4))
	var body []byte
	for i := range lines {
		at := benchmarkTime.Add(time.Duration(i/60) * 10 * time.Second).UnixNano()
		body = appendTelegrafLine(body, random, i)
		body = fmt.Appendf(body, " %d\n", at)
	}
	return body
}

func appendTelegrafLine(body []byte, random *rand.Rand, i int) []byte {
	percent := func() float64 { return random.Float64() * 100 }
	number := func() int { return random.IntN(1 << 34) }
	host := fmt.Sprintf("web-%02d.example.org", i/6%10)
	switch i % 6 {
	case 0:
		return fmt.Appendf(body, "cpu,cpu=cpu%d,host=%s usage_user=%v,usage_system=%v,usage_idle=%v,usage_nice=0,"+
			"usage_iowait=%v,usage_irq=0,usage_softirq=%v,usage_steal=0,usage_guest=0,usage_guest_nice=0",
			i%4, host, percent(), percent(), percent(), percent(), percent())
	case 1:
		return fmt.Appendf(body, "mem,datacenter=fra,host=%s total=16777216000i,available=%di,used=%di,free=%di,"+
			"cached=%di,buffered=%di,active=%di,inactive=%di,slab=%di,used_percent=%v,available_percent=%v,"+
			"commit_limit=%di,committed_as=%di,dirty=%di,mapped=%di,page_tables=%di,shared=%di,sreclaimable=%di,"+
			"sunreclaim=%di,swap_total=0i", host, number(), number(), number(), number(), number(), number(), number(),
			number(), percent(), percent(), number(), number(), number(), number(), number(), number(), number(), number())
	case 2:
		return fmt.Appendf(body, "disk,device=nvme0n1p2,fstype=ext4,host=%s,mode=rw,path=/var/lib total=%di,free=%di,"+
			"used=%di,used_percent=%v,inodes_total=%di,inodes_free=%di,inodes_used=%di,inodes_used_percent=%v",
			host, number(), number(), number(), percent(), number(), number(), number(), percent())
	case 3:
		return fmt.Appendf(body, "net,host=%s,interface=eth0 bytes_sent=%di,bytes_recv=%di,packets_sent=%di,"+
			"packets_recv=%di,err_in=0i,err_out=0i,drop_in=%di,drop_out=0i",
			host, number(), number(), number(), number(), random.IntN(10))
	case 4:
		return fmt.Appendf(body, `system,datacenter=fra,host=%s,role=web load1=%.2f,load5=%.2f,load15=%.2f,n_cpus=4i,`+
			`n_users=%di,uptime=%di,uptime_format="%2d days, %2d:%02d"`, host, percent(), percent(), percent(),
			random.IntN(5), number(), random.IntN(99), random.IntN(24), random.IntN(60))
	default:
		return fmt.Appendf(body, `docker,container_image=nginx,container_name=proxy\ %d,host=%s,server=primary `+
			`running=true,restarts=%di,cpu=%v,memory=%di,status="healthy",health="{\"ok\":true}"`,
			i%3, host, random.IntN(5), percent(), number())
	}
}

// cardinalityBody makes each line a series of its own, with one field.
func cardinalityBody(lines int) []byte {
	var body []byte
	for i := range lines {
		body = fmt.Appendf(body, "requests,id=%07d count=%di %d\n", i*7919%1_000_000, i%1000, benchmarkTime.UnixNano())
	}
	return body
}

var benchmarkBodies = []struct {
	name string
	make func(lines int) []byte
}{
	{"tsbs", tsbsBody},
	{"telegraf", telegrafBody},
	{"cardinality", cardinalityBody},
}

const benchmarkLines = 5000

// BenchmarkParseBatch parses a request of 5,000 lines into a batch of two shards that was used before.
func BenchmarkParseBatch(b *testing.B) {
	engine := newTestEngine(b)
	for _, body := range benchmarkBodies {
		b.Run(body.name, func(b *testing.B) {
			benchmarkParse(b, body.make(benchmarkLines), func(parse func(to Appender)) {
				batch := engine.NewBatch("db")
				defer batch.Release()
				parse(batch)
			})
		})
	}
}

// BenchmarkParse leaves out the batch.
func BenchmarkParse(b *testing.B) {
	for _, body := range benchmarkBodies {
		b.Run(body.name, func(b *testing.B) {
			benchmarkParse(b, body.make(benchmarkLines), func(parse func(to Appender)) { parse(discardPoints{}) })
		})
	}
}

// BenchmarkParseControlBytes parses lines that the Decoder refuses for a byte in a name, beside the same lines without.
func BenchmarkParseControlBytes(b *testing.B) {
	plain := benchmarkBodies[0].make(benchmarkLines)
	for _, c := range []struct{ name, from, to string }{
		{"none", "", ""}, {"control", "hostname=h", "hostname=\x01h"}, {"joined", "hostname=h", "hostname=\\\nh"},
	} {
		b.Run("bytes="+c.name, func(b *testing.B) {
			text := bytes.ReplaceAll(plain, []byte(c.from), []byte(c.to))
			if c.from == "" {
				text = plain
			}
			benchmarkParse(b, text, func(parse func(to Appender)) { parse(discardPoints{}) })
		})
	}
}

// benchmarkParse parses the text into what with provides.
func benchmarkParse(b *testing.B, text []byte, with func(parse func(to Appender))) {
	parser := NewParser(DefaultLineLimits())
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		with(func(to Appender) {
			result, err := parser.Parse(text, PrecisionNanosecond, benchmarkTime, to)
			if err != nil || result.Refused > 0 {
				b.Fatal(err, result.Errors)
			}
		})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchmarkLines, "ns/line")
}

// discardPoints is an Appender that keeps nothing.
type discardPoints struct{}

func (discardPoints) Append(*shard.Point) error { return nil }
