# The plot of success against the corridor's length, a panel for each memory, from its table:
#   cd docs/figures && gnuplot length.gp
set datafile separator ","
set terminal svg size 1000,540 font "sans,11" background "white"
set output "length.svg"
memories = "deltanet hqlt min_gru delta_product deltanet_window gtrxl kda lru gru mamba2 gla slstm linear_transformer rg_lru mlstm lstm retnet gated_deltanet transformer s5 ffm"
success(memory, seed) = strcol(1) eq memory && $2 == seed ? 100 * $4 : NaN
set multiplot layout 3,7 margins 0.05,0.99,0.07,0.94 spacing 0.015,0.09
set logscale x 2
set xrange [8.5:380]
set yrange [-4:104]
set tics nomirror scale 0.5
set border 3 lc rgb "#888888"
set arrow from 20, graph 0 to 20, graph 1 nohead lc rgb "#bbbbbb" dashtype 2
set arrow from 8.5, 50 to 380, 50 nohead lc rgb "#bbbbbb" dashtype 2
unset key
do for [i=1:words(memories)] {
  memory = word(memories, i)
  set title memory noenhanced offset 0,-0.7
  if (i % 7 == 1) { set ytics 0,50,100 format "%g%%" } else { set ytics 0,50,100 format "" }
  if (i > 14) { set xtics (10, "" 20, 40, "" 80, 160, "" 320) format "%g" } else { set xtics ("" 10, "" 20, "" 40, "" 80, "" 160, "" 320) }
  plot for [seed=1:3] "reports/length.csv" using 3:(success(memory, seed)) every ::1 with lines lc rgb word("#1b6ca8 #d1722b #3a8f4d", seed) lw 1.5
}
unset multiplot
