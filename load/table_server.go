package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (t *table) addServer() {
	t.group("Server")
	t.row("CPU", func(r *Report) string {
		if r.Server == nil || r.Run.Seconds <= 0 {
			return ""
		}
		text := fmt.Sprintf("%.2f cores", r.Server.CPUSeconds/r.Run.Seconds)
		if r.Totals.Acknowledged > 0 {
			text += fmt.Sprintf(", %.2f µs per point", r.Server.CPUSeconds*1e6/float64(r.Totals.Acknowledged))
		}
		return text
	})
	t.row("peak memory since its start", func(r *Report) string {
		if r.Server == nil {
			return ""
		}
		return sized(r.Server.PeakMemoryBytes)
	})
	t.row("written to disk", func(r *Report) string {
		if r.Server == nil || r.Server.WrittenBytes == 0 || r.Totals.Acknowledged == 0 {
			return ""
		}
		return fmt.Sprintf("%.1f B per point", float64(r.Server.WrittenBytes)/float64(r.Totals.Acknowledged))
	})
	t.row("CPU of this tester", func(r *Report) string {
		if r.Tester == nil || r.Run.Seconds <= 0 {
			return ""
		}
		return fmt.Sprintf("%.2f of %d cores", r.Tester.CPUSeconds/r.Run.Seconds, r.Run.CPUs)
	})
	t.pressure("tier, bound", func(p *PressureReport) string { return sized(p.CapacityBytes) })
	t.pressure("tier, highest level", func(p *PressureReport) string {
		return fmt.Sprintf("%s sampled, %s recorded by the server", sized(p.HighestSeenBytes), sized(p.HighestBytes))
	})
	t.pressure("tier, samples above the bound", func(p *PressureReport) string {
		return fmt.Sprintf("%s of %s", grouped(p.SamplesAboveBound), grouped(p.Samples))
	})
	t.pressure("shards blocked", func(p *PressureReport) string {
		return percent(share(p.SamplesBlocked, p.Samples)) + " of the samples"
	})
	t.pressure("writes that waited for room", func(p *PressureReport) string {
		return fmt.Sprintf("%s, at most %s at once", grouped(p.Waited), grouped(p.WaitingMax))
	})
	t.pressure("refused, as the server counts", func(p *PressureReport) string {
		var causes []string
		for _, cause := range slices.Sorted(maps.Keys(p.Refused)) {
			causes = append(causes, cause+" "+grouped(p.Refused[cause]))
		}
		return strings.Join(causes, ", ")
	})
}

func (t *table) pressure(name string, value func(*PressureReport) string) {
	t.row(name, func(r *Report) string {
		if r.Pressure == nil || r.Pressure.Samples == 0 {
			return ""
		}
		return value(r.Pressure)
	})
}

func (t *table) addVerification() {
	t.group("Read back")
	t.verified("acknowledged points", func(v *Verification) string { return grouped(v.Acknowledged) })
	t.verified("missing", func(v *Verification) string { return grouped(v.Missing) })
	t.verified("double", func(v *Verification) string { return grouped(v.Double) })
	t.verified("altered", func(v *Verification) string { return grouped(v.Altered) })
	t.verified("stored though refused", func(v *Verification) string { return grouped(v.RefusedStored) })
	t.verified("stored, outcome was unknown", func(v *Verification) string {
		if v.Unknown == 0 {
			return ""
		}
		return fmt.Sprintf("%s of %s", grouped(v.UnknownStored), grouped(v.Unknown))
	})
	t.verified("not of this run", func(v *Verification) string {
		if v.Foreign == 0 {
			return ""
		}
		return grouped(v.Foreign)
	})
}

func (t *table) verified(name string, value func(*Verification) string) {
	t.row(name, func(r *Report) string {
		if r.Verified == nil {
			return ""
		}
		return value(r.Verified)
	})
}
