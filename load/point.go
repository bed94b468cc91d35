package load

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// point is what a line says, reduced to what verification compares. Hashes are of this process only.
type point struct {
	series uint64 // of measurement and tags, in whatever order
	fields uint64 // of names, types and values, in whatever order
	at     int64  // as it is written
	timed  bool
}

// hashSeed makes the hashes of one process different from those of the next, so that no input can be made to collide.
var hashSeed = maphash.MakeSeed()

// pointOf reads the line that the decoder stands at.
func pointOf(decoder *lineprotocol.Decoder) (point, error) {
	name, err := decoder.Measurement()
	if err != nil {
		return point{}, err
	}
	return pointBehind(decoder, name)
}

// pointBehind reads on where the measurement was read already.
func pointBehind(decoder *lineprotocol.Decoder, name []byte) (point, error) {
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	p := point{series: part(&hash, name, 'm', nil)}
	for {
		key, value, err := decoder.NextTag()
		if err != nil {
			return p, err
		}
		if key == nil {
			break
		}
		p.series += part(&hash, key, 't', value)
	}
	var err error
	if p.fields, err = fieldsOf(decoder, &hash); err != nil {
		return p, err
	}
	digits, err := decoder.TimeBytes()
	if err != nil || len(digits) == 0 {
		return p, err
	}
	p.at, err = strconv.ParseInt(string(digits), 10, 64)
	p.timed = true
	return p, err
}

func fieldsOf(decoder *lineprotocol.Decoder, hash *maphash.Hash) (uint64, error) {
	var sum uint64
	var text [32]byte
	for count := 0; ; count++ {
		key, value, err := decoder.NextField()
		if err != nil {
			return 0, err
		}
		if key == nil && count == 0 {
			return 0, errors.New("the line has no field")
		}
		if key == nil {
			return sum, nil
		}
		switch value.Kind() {
		case lineprotocol.String:
			sum += part(hash, key, 's', value.BytesV())
		case lineprotocol.Float: // the same number may be written in many ways
			sum += part(hash, key, 'f', strconv.AppendFloat(text[:0], value.FloatV(), 'e', -1, 64))
		case lineprotocol.Int:
			sum += part(hash, key, 'i', strconv.AppendInt(text[:0], value.IntV(), 10))
		case lineprotocol.Uint:
			sum += part(hash, key, 'u', strconv.AppendUint(text[:0], value.UintV(), 10))
		case lineprotocol.Bool:
			sum += part(hash, key, 'b', strconv.AppendBool(text[:0], value.BoolV()))
		default:
			return 0, fmt.Errorf("field %q has a value of an unknown kind", key)
		}
	}
}

// part hashes a name, what it is and its value. Sums of such hashes don't depend on the order.
func part(hash *maphash.Hash, name []byte, kind byte, value []byte) uint64 {
	hash.Reset()
	_, _ = hash.Write(name) // never fails
	_ = hash.WriteByte(0)
	_ = hash.WriteByte(kind)
	_, _ = hash.Write(value)
	return hash.Sum64()
}
