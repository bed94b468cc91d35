package shard

// SealOutcome is what became of a wish to seal.
type SealOutcome uint8

// The outcomes of a seal.
const (
	SealNotNeeded SealOutcome = iota // the active memtable is empty, or what comes still fits
	Sealed
	SealBlocked // the tier, the frozen queue or the log has no room: the memtable pins at its cap
)

// String names the outcome as logs show it.
func (o SealOutcome) String() string {
	switch o {
	case SealNotNeeded:
		return "not needed"
	case Sealed:
		return "sealed"
	default:
		return "blocked"
	}
}
