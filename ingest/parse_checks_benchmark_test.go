package ingest

import (
	"math"
	"testing"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"lineweir/segment"
	"lineweir/shard"
)

// BenchmarkParseChecks measures what our checks add: bare is the Decoder with its own values and an Appender behind it,
// without a line scanner, limits, reserved names, ranges or line numbers; checked is the Parser. The batch is the same.
func BenchmarkParseChecks(b *testing.B) {
	engine := newTestEngine(b)
	for _, body := range benchmarkBodies {
		text := body.make(benchmarkLines)
		b.Run("way=bare/shape="+body.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var point shard.Point
			for b.Loop() {
				batch := engine.NewBatch("db")
				appendBare(b, text, &point, batch)
				batch.Release()
			}
		})
		b.Run("way=checked/shape="+body.name, func(b *testing.B) {
			benchmarkParse(b, text, func(parse func(to Appender)) {
				batch := engine.NewBatch("db")
				defer batch.Release()
				parse(batch)
			})
		})
	}
}

// appendBare is the loop that the documentation of the Decoder shows.
func appendBare(b *testing.B, text []byte, point *shard.Point, to Appender) {
	decoder := lineprotocol.NewDecoderWithBytes(text)
	for decoder.Next() {
		var err error
		if point.Measurement, err = decoder.Measurement(); err != nil {
			b.Fatal(err)
		}
		point.Tags, point.Fields = point.Tags[:0], point.Fields[:0]
		for {
			key, value, err := decoder.NextTag()
			if err != nil {
				b.Fatal(err)
			}
			if key == nil {
				break
			}
			point.Tags = append(point.Tags, shard.Tag{Key: key, Value: value})
		}
		for {
			key, value, err := decoder.NextField()
			if err != nil {
				b.Fatal(err)
			}
			if key == nil {
				break
			}
			point.Fields = append(point.Fields, bareField(key, value))
		}
		at, err := decoder.Time(lineprotocol.Nanosecond, benchmarkTime)
		if err != nil {
			b.Fatal(err)
		}
		point.Time = at.UnixNano()
		if err := to.Append(point); err != nil {
			b.Fatal(err)
		}
	}
}

func bareField(key []byte, value lineprotocol.Value) shard.Field {
	field := shard.Field{Key: key}
	switch value.Kind() {
	case lineprotocol.Float:
		field.Kind, field.Number = segment.KindFloat, math.Float64bits(value.FloatV())
	case lineprotocol.Int:
		field.Kind, field.Number = segment.KindInt, uint64(value.IntV())
	case lineprotocol.Uint:
		field.Kind, field.Number = segment.KindUint, value.UintV()
	case lineprotocol.Bool:
		field.Kind = segment.KindBool
		if value.BoolV() {
			field.Number = 1
		}
	default:
		field.Kind, field.String = segment.KindString, value.BytesV()
	}
	return field
}
