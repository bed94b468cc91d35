package load

// fate is what is known in the end about a batch.
type fate uint8

const (
	fateUnsent       fate = iota
	fateRefused           // each time it was sent, nothing of it was stored
	fateUnknown           // at least one attempt may have stored it, and none was acknowledged
	fateAcknowledged      // all of it must be there
)

// fates keeps the fate of each batch in two bits.
type fates struct {
	packed []byte
	count  int64 // batches that may have one
}

func (f *fates) get(number int64) fate {
	if number >= f.count {
		return fateUnsent
	}
	return fate(f.packed[number/4] >> (number % 4 * 2) & 3)
}

// settle notes the outcome of an attempt. What is known already is never taken back.
func (f *fates) settle(number int64, o outcome) {
	known := fateUnknown
	switch o {
	case acknowledged:
		known = fateAcknowledged
	case refused:
		known = fateRefused
	}
	for int64(len(f.packed)) <= number/4 {
		f.packed = append(f.packed, 0)
	}
	f.count = max(f.count, number+1)
	if shift := number % 4 * 2; known > f.get(number) {
		f.packed[number/4] = f.packed[number/4]&^(3<<shift) | byte(known)<<shift
	}
}
