package pagecache

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestOptionsValidate(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    []string // one part of each problem
	}{
		{"defaults", Options{CapacityBytes: 1}, nil},
		{"no capacity", Options{}, []string{"capacity is 0"}},
		{"largest capacity", Options{CapacityBytes: CapacityBytesMax}, nil},
		{"capacity beyond", Options{CapacityBytes: CapacityBytesMax + 1}, []string{"capacity"}},
		{"smallest page", Options{CapacityBytes: 1, PageBytes: PageBytesMin}, nil},
		{"page too small", Options{CapacityBytes: 1, PageBytes: PageBytesMin - 1}, []string{"page size"}},
		{"largest page", Options{CapacityBytes: 1, PageBytes: PageBytesMax}, nil},
		{"page too large", Options{CapacityBytes: 1, PageBytes: PageBytesMax + 1}, []string{"page size"}},
		{"soft at hard", Options{CapacityBytes: 1, SoftFraction: 1}, []string{"soft fraction is 1"}},
		{"soft below nothing", Options{CapacityBytes: 1, SoftFraction: -0.1}, []string{"soft fraction"}},
		{"soft not a number", Options{CapacityBytes: 1, SoftFraction: math.NaN()}, []string{"soft fraction is NaN"}},
		{"long shortest answer", Options{CapacityBytes: 1, RetryAfterMin: 2 * time.Minute}, nil},
		{"answer below a second", Options{CapacityBytes: 1, RetryAfterMin: time.Millisecond}, []string{"shortest"}},
		{"answer in fractions", Options{CapacityBytes: 1, RetryAfterMax: 1500 * time.Millisecond}, []string{"longest"}},
		{"longest answer", Options{CapacityBytes: 1, RetryAfterMax: RetryAfterLimit}, nil},
		{"answer beyond", Options{CapacityBytes: 1, RetryAfterMax: RetryAfterLimit + time.Second}, []string{"longest"}},
		{
			"answers swapped",
			Options{CapacityBytes: 1, RetryAfterMin: 9 * time.Second, RetryAfterMax: 8 * time.Second},
			[]string{"longest Retry-After is 8s"},
		},
		{
			"all at once",
			Options{PageBytes: 1, SoftFraction: 2, RetryAfterMin: -1, RetryAfterMax: -1},
			[]string{"capacity", "page size", "soft fraction", "shortest", "longest"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.options.Validate()
			if len(test.want) == 0 {
				if err != nil {
					t.Fatalf("got %v, want nil", err)
				}
				return
			}
			if !errors.Is(err, ErrInvalidOptions) {
				t.Fatalf("got %v, want ErrInvalidOptions", err)
			}
			if got := strings.Count(err.Error(), "\n") + 1; got != len(test.want) {
				t.Errorf("got %d problems, want %d: %v", got, len(test.want), err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want it to mention %q", err, part)
				}
			}
		})
	}
}

func TestNewCacheRefusesInvalidOptions(t *testing.T) {
	if _, err := NewCache(Options{}); !errors.Is(err, ErrInvalidOptions) {
		t.Errorf("got %v, want ErrInvalidOptions", err)
	}
}
