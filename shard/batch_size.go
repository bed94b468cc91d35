package shard

// What parts of a batch take beside the values, with what a map or an allocation adds.
const (
	batchMeasurementBytes = 768
	batchTableBytes       = 160
	batchColumnBytes      = 160 // in the measurement
	batchValuesBytes      = 112 // of a column in a table
)

// NeedBytes is what the batch needs in memtables at worst.
func (b *Batch) NeedBytes() int64 {
	sum := int64(0)
	for i := range b.needs {
		sum += b.needs[i].bytes()
	}
	return sum
}

// SizeBytes returns about the memory that the batch's points take. It is cheap enough to be asked while a batch grows:
// the values are taken from what they need of the memtables, where they are counted one by one.
func (b *Batch) SizeBytes() int64 {
	var size int64
	tables := int64(len(b.needs))
	for _, m := range b.order {
		columns := int64(len(m.fields) + len(m.tagNames))
		size += batchMeasurementBytes + tables*batchTableBytes + columns*batchColumnBytes +
			tables*int64(len(m.fields))*batchValuesBytes
	}
	for i := range b.needs {
		need := &b.needs[i].cost
		values := 20*need.Rows + need.TagBytes + 12*need.Numbers + 8*need.Strings + need.StringBytes
		size += values + values/4 // what slices grow by
	}
	return size
}

// sizeBytes returns the memory that the measurement holds, used or not.
func (m *batchMeasurement) sizeBytes() int64 {
	columns := int64(cap(m.fields) + cap(m.tagNames))
	size := batchMeasurementBytes + int64(len(m.tables))*batchTableBytes + columns*batchColumnBytes
	for i := range m.tables {
		size += m.tables[i].sizeBytes()
	}
	return size
}

func (t *batchTable) sizeBytes() int64 {
	size := int64(8*cap(t.hashes) + 4*cap(t.keyEnds) + cap(t.keys) + 8*cap(t.times) + batchValuesBytes*cap(t.values))
	for i := range t.values {
		size += t.values[i].sizeBytes()
	}
	return size
}
