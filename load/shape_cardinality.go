package load

import (
	"math/rand/v2"
	"strconv"
)

// cardinality makes short lines of many series: three tags, one of them different for each series, and one float.
type cardinality struct {
	count  int
	random *rand.Rand
}

func (c *cardinality) series() int { return c.count }

func (c *cardinality) append(dst []byte, series int) []byte {
	dst = append(dst, "request,endpoint=e"...)
	dst = strconv.AppendInt(dst, int64(series%17), 10)
	dst = append(dst, ",node=n"...)
	dst = strconv.AppendInt(dst, int64(series%997), 10)
	dst = append(dst, ",session=s"...)
	dst = strconv.AppendInt(dst, int64(series), 36)
	dst = append(dst, " duration="...)
	dst = strconv.AppendFloat(dst, float64(c.random.IntN(1_000_000))/1000, 'f', -1, 64)
	return append(dst, ' ')
}
