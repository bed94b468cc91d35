// Package uplot holds the one copy of uPlot 1.6 (https://github.com/leeoniya/uPlot, MIT), the library that draws the
// plots of the status page and of the reports of the load tester. The files are those of its npm package, unchanged,
// and its licence lies beside them.
//
// It holds files and no code: what is plotted, and how, is said by the pages that use it.
package uplot
