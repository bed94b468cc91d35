package ingest

import "lineweir/shard"

// meterPoints is how many points come between two looks at the memory of a batch.
const meterPoints = 1024

// meter hands points to a batch, and keeps the claim of the request up with the batch's memory while it grows. Short
// lines take many times their text.
type meter struct {
	batch        *shard.Batch
	claim        *claim
	claimedBytes int64
	points       int
}

// Append adds the point. An error that is no *shard.PointError ends the parse.
func (m *meter) Append(p *shard.Point) error {
	if err := m.batch.Append(p); err != nil {
		return err
	}
	m.points++
	if m.points%meterPoints != 0 {
		return nil
	}
	if grown := m.batch.SizeBytes() - m.claimedBytes; grown > 0 {
		return m.take(grown)
	}
	return nil
}

// settle makes the claim what the batch takes.
func (m *meter) settle() error {
	grown := m.batch.SizeBytes() - m.claimedBytes
	if grown >= 0 {
		return m.take(grown)
	}
	m.claim.shrink(-grown)
	m.claimedBytes += grown
	return nil
}

func (m *meter) take(sizeBytes int64) error {
	if err := m.claim.grow(sizeBytes); err != nil {
		return err
	}
	m.claimedBytes += sizeBytes
	return nil
}
