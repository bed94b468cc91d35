package ingest

import (
	"errors"
	"fmt"
)

// TextBytesMax bounds the decoded text of one request, whatever is configured: offsets into it fit 32 bits, and a
// payload of the write-ahead log that claims more is not one.
const TextBytesMax = 128 << 20

// What InfluxDB allows, and no configuration exceeds: flush and compaction are built for it.
const (
	seriesKeyBytesLimit = 65_535
	stringBytesLimit    = 1 << 20
)

// LineLimits bound the lines of a body: how many there are, and what one of them holds. A line that holds too much is
// refused, never cut, and its neighbours stand; a body of too many is refused whole.
type LineLimits struct {
	LinesMax          int // in a body, with blank lines and comments; a string over several lines is part of one
	PointsMax         int // in a body
	LineBytesMax      int // from the first byte to the line break, line breaks inside strings included
	TagsMax           int
	FieldsMax         int // with those that a later one of the same key overrides
	SeriesKeyBytesMax int // of measurement, tags and longest field key, see seriesKeyFieldBytes
	StringBytesMax    int // of one string field, unescaped
}

// DefaultLineLimits are InfluxDB's where it has one.
func DefaultLineLimits() LineLimits {
	return LineLimits{
		LinesMax:          2_000_000,
		PointsMax:         1_000_000,
		LineBytesMax:      4 << 20,
		TagsMax:           256,
		FieldsMax:         1024,
		SeriesKeyBytesMax: seriesKeyBytesLimit,
		StringBytesMax:    stringBytesLimit,
	}
}

// replayLimits hold no line back that some configuration has let in before.
func replayLimits() LineLimits {
	return LineLimits{
		LinesMax:          TextBytesMax,
		PointsMax:         TextBytesMax,
		LineBytesMax:      TextBytesMax,
		TagsMax:           TextBytesMax,
		FieldsMax:         TextBytesMax,
		SeriesKeyBytesMax: seriesKeyBytesLimit,
		StringBytesMax:    stringBytesLimit,
	}
}

// Validate returns every problem at once.
func (l LineLimits) Validate() error {
	return errors.Join(
		limitWithin("lines per request", l.LinesMax, TextBytesMax),
		limitWithin("points per request", l.PointsMax, TextBytesMax),
		limitWithin("line bytes", l.LineBytesMax, TextBytesMax),
		limitWithin("tags per line", l.TagsMax, seriesKeyBytesLimit),
		limitWithin("fields per line", l.FieldsMax, TextBytesMax),
		limitWithin("series key bytes", l.SeriesKeyBytesMax, seriesKeyBytesLimit),
		limitWithin("string bytes", l.StringBytesMax, stringBytesLimit),
	)
}

func limitWithin(name string, value, limit int) error {
	if value >= 1 && value <= limit {
		return nil
	}
	return fmt.Errorf("limit of %s is %d, must be from 1 to %d", name, value, limit)
}
