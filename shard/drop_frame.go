package shard

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lineweir/segment"
)

// frameDrop is the type of a frame that holds a drop. FORMAT.md describes its payload.
const frameDrop byte = 2

// drop is what a frame says is gone: a measurement of some databases, or the databases whole.
type drop struct {
	sequence    uint64
	databases   []string // ascending
	measurement string   // "": whole databases
}

const (
	dropVersion     = 1
	dropHeaderBytes = 12
	dropNameBytes   = 1 << 16 // longest name that is believed
)

var errDropDamaged = errors.New("the payload of a drop is damaged")

// records are the drop as the manifest has it.
func (d *drop) records() []segment.Drop {
	records := make([]segment.Drop, len(d.databases))
	for i, name := range d.databases {
		records[i] = segment.Drop{Database: name, Measurement: d.measurement, Sequence: d.sequence}
	}
	return records
}

// appendDrop writes:
//
//	0  version, 1
//	1  zeros
//	4  length of the measurement, uint32; 0: whole databases
//	8  number of databases, uint32
//	12 measurement, then for each database its length, uint32, and its name
func appendDrop(dst []byte, d drop) []byte {
	dst = append(dst, dropVersion, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(d.measurement)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(d.databases)))
	dst = append(dst, d.measurement...)
	for _, name := range d.databases {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(name)))
		dst = append(dst, name...)
	}
	return dst
}

// parseDrop is the inverse of appendDrop. It believes no length that the payload can't keep.
func parseDrop(payload []byte) (drop, error) {
	if len(payload) < dropHeaderBytes {
		return drop{}, fmt.Errorf("%w: %d bytes are less than a header", errDropDamaged, len(payload))
	}
	if payload[0] != dropVersion || payload[1] != 0 || payload[2] != 0 || payload[3] != 0 {
		return drop{}, fmt.Errorf("%w: it begins with %x", errDropDamaged, payload[:4])
	}
	length, count := binary.LittleEndian.Uint32(payload[4:]), binary.LittleEndian.Uint32(payload[8:])
	measurement, rest, err := takeName(payload[dropHeaderBytes:], length)
	if err != nil {
		return drop{}, err
	}
	d := drop{measurement: measurement}
	for range count {
		if len(rest) < 4 {
			return drop{}, fmt.Errorf("%w: it ends behind %d of %d databases", errDropDamaged, len(d.databases), count)
		}
		var name string
		if name, rest, err = takeName(rest[4:], binary.LittleEndian.Uint32(rest)); err != nil {
			return drop{}, err
		}
		if name == "" || len(d.databases) > 0 && name <= d.databases[len(d.databases)-1] {
			return drop{}, fmt.Errorf("%w: database %q is out of order", errDropDamaged, name)
		}
		d.databases = append(d.databases, name)
	}
	if len(d.databases) == 0 || len(rest) > 0 {
		return drop{}, fmt.Errorf("%w: %d databases and %d more bytes", errDropDamaged, len(d.databases), len(rest))
	}
	return d, nil
}

func takeName(data []byte, length uint32) (name string, rest []byte, err error) {
	if length > dropNameBytes || int(length) > len(data) {
		return "", nil, fmt.Errorf("%w: a name of %d bytes", errDropDamaged, length)
	}
	return string(data[:length]), data[length:], nil
}
