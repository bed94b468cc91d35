package uplot

import _ "embed"

// Script defines the global function uPlot.
//
//go:embed uPlot.iife.min.js
var Script string

// Style is what the plots need of CSS.
//
//go:embed uPlot.min.css
var Style string

// Licence has to go along with every copy.
//
//go:embed uPlot.LICENSE
var Licence string
