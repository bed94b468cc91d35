package ingest

import (
	"testing"
)

// BenchmarkAppendPayload encodes a request of 5,000 lines, as text and as the client compressed it.
func BenchmarkAppendPayload(b *testing.B) {
	for _, body := range benchmarkBodies {
		text := body.make(benchmarkLines)
		payloads := map[string]Payload{
			"s2":   {Database: "db", Precision: PrecisionNanosecond, DefaultTime: benchmarkTime, Text: text},
			"gzip": gzipPayload(b, text),
		}
		for name, payload := range payloads {
			b.Run(body.name+"/"+name, func(b *testing.B) {
				buf := make([]byte, 0, PayloadBytesMax(len(payload.Database), len(text)))
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				var encoded []byte
				for b.Loop() {
					var err error
					if encoded, err = AppendPayload(buf, &payload); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchmarkLines, "ns/line")
				b.ReportMetric(float64(len(encoded))/benchmarkLines, "B/line")
			})
		}
	}
}

// BenchmarkDecodePayload replays a request of 5,000 lines.
func BenchmarkDecodePayload(b *testing.B) {
	engine := newTestEngine(b)
	for _, body := range benchmarkBodies {
		b.Run(body.name, func(b *testing.B) {
			text := body.make(benchmarkLines)
			payload := mustAppendPayload(b, Payload{Database: "db", Precision: PrecisionNanosecond, Text: text})
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				batch, err := DecodePayload(payload, engine.NewBatch)
				if err != nil {
					b.Fatal(err)
				}
				batch.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchmarkLines, "ns/line")
		})
	}
}
