package segment

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
)

// tsbsSource makes rows like those of TSBS devops cpu: ten tags and ten integer fields of slowly changing values.
type tsbsSource struct {
	hosts, perHost int
	from           int64
	row            int
	keys           [][]byte
	block          Block
	state          uint64
}

func newTSBSSource(hosts, perHost int, from int64) *tsbsSource {
	s := &tsbsSource{hosts: hosts, perHost: perHost, from: from, state: uint64(from) | 1}
	for host := range hosts {
		s.keys = append(s.keys, []byte(key("hostname", fmt.Sprintf("host_%06d", host), "region", fmt.Sprint("eu-", host%9),
			"datacenter", fmt.Sprint("eu-", host%9, "b"), "rack", fmt.Sprint(host%100), "os", "Ubuntu16.10",
			"arch", "x64", "team", "SF", "service", fmt.Sprint(host%20), "service_version", fmt.Sprint(host%2),
			"service_environment", "production")))
	}
	slices.SortFunc(s.keys, bytes.Compare)
	return s
}

func tsbsInfo() FileInfo {
	info := FileInfo{Database: "db", Measurement: "cpu", Tags: []string{"arch", "datacenter", "hostname", "os", "rack",
		"region", "service", "service_environment", "service_version", "team"}}
	for _, name := range []string{"guest", "guest_nice", "idle", "iowait", "irq", "nice", "softirq", "steal", "system",
		"user"} {
		info.Fields = append(info.Fields, ColumnDef{"usage_" + name, KindInt})
	}
	return info
}

func (s *tsbsSource) Next() (*Block, error) {
	total := s.hosts * s.perHost
	if s.row == total {
		return nil, io.EOF
	}
	rows := min(BlockRows(21), total-s.row)
	b := &s.block
	b.Runs, b.Times = b.Runs[:0], b.Times[:0]
	if b.Columns == nil {
		for _, field := range tsbsInfo().Fields {
			b.Columns = append(b.Columns, Column{Name: field.Name, Kind: field.Kind})
		}
	}
	for i := range b.Columns {
		b.Columns[i].Numbers = b.Columns[i].Numbers[:0]
	}
	for range rows {
		host, at := s.row/s.perHost, s.row%s.perHost
		if at == 0 || len(b.Runs) == 0 {
			b.Runs = append(b.Runs, Run{Key: s.keys[host]})
		}
		b.Runs[len(b.Runs)-1].Rows++
		b.Times = append(b.Times, s.from+int64(at)*10e9)
		for i := range b.Columns {
			s.state = s.state*6364136223846793005 + 1442695040888963407
			b.Columns[i].Numbers = append(b.Columns[i].Numbers, 50+(s.state>>60))
		}
		s.row++
	}
	return b, nil
}

func (s *tsbsSource) Close() error { return nil }

// BenchmarkCompact merges four segments of level 0 into level 1, with verification, syncs and edit. A row counts once,
// however often it is read back.
func BenchmarkCompact(b *testing.B) {
	for _, shape := range []struct{ hosts, perHost int }{{100, 1000}, {4000, 25}} {
		b.Run(fmt.Sprintf("hosts=%d", shape.hosts), func(b *testing.B) {
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				b.StopTimer()
				s := openTestStore(b, StoreOptions{Dir: b.TempDir()})
				for i := range 4 {
					p := s.NewFile(0, tsbsInfo(), 0)
					from := noon.UnixNano() + int64(i*shape.perHost)*10e9
					m, err := p.Write(newTSBSSource(shape.hosts, shape.perHost, from))
					if err == nil {
						err = s.Seal([]*PendingFile{p})
					}
					if err != nil {
						b.Fatal(err)
					}
					mustApply(b, s, Edit{Add: []Meta{m}})
				}
				c := newTestCompactor(b, CompactorOptions{Store: s})
				b.StartTimer()
				if did, err := c.CompactOnce(b.Context()); !did || err != nil {
					b.Fatal(did, err)
				}
				rows += 4 * shape.hosts * shape.perHost
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
}
