package segment

import (
	"fmt"
)

// OpenReadOnly opens a store for reading and changes nothing in the directory: no edit is taken, nothing is moved. It
// refuses what OpenStore refuses.
func OpenReadOnly(o StoreOptions) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	replayed, _, err := inspect(o.FS, o.Dir)
	if err == nil {
		err = o.Approve(replayed.recorded())
	}
	if err != nil {
		return nil, fmt.Errorf("open segment store %s: %w", o.Dir, err)
	}
	s := &Store{options: o, catalog: newCatalog()}
	if replayed != nil {
		s.catalog = replayed.catalog
	}
	_ = s.poisonWith(ErrReadOnly)
	s.install(s.firstVersion(), nil)
	return s, nil
}
